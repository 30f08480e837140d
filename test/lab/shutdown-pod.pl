#!/usr/bin/perl
# A workload: shutdown-pod.pl NAME SECONDS|never [frozen]. Says what it is told, and ends so long after the first SIGTERM, or never.
# frozen: so long after it has stood still for some seconds since that SIGTERM.
use strict;
use warnings;
# Ends when it says so, however many others want a CPU: a pod that cannot run for the time of its phase is killed, and rightly.
# sched_setscheduler of x86-64, SCHED_FIFO; where that is not allowed, it waits like the others.
BEGIN { my $priority = pack 'i', 1; syscall 144, 0, 1, $priority }
use Time::HiRes qw(time);

$| = 1;
my ($name, $after, $freezes) = @ARGV;
my ($told, $ends) = (0, 0);
# With its own time: the journal stamps a line when it reads it, and two that waited come in either order.
sub say_it { printf "%s %d %s @%.3f\n", $name, $$, $_[0], time }
$SIG{TERM} = sub {
  $told++;
  say_it "told $told";
  # For who waits for this instant.
  if (open my $mark, '>', "/run/lab-$name-told") { close $mark }
  $ends ||= time + $after if $after ne 'never';
};
say_it "runs";
if ($freezes) {
  select undef, undef, undef, 0.05 until $told;
  for (my $last = time; time - $last < 4; select undef, undef, undef, 0.05) { $last = time }
  $ends = time + $after;
}
until ($ends && time >= $ends) {
  select undef, undef, undef, $ends ? $ends - time : 3600;
}
say_it "ends";
