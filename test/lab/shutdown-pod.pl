#!/usr/bin/perl
# A workload: shutdown-pod.pl NAME SECONDS|never. Says what it is told, and ends so long after the first SIGTERM, or never.
use strict;
use warnings;
use Time::HiRes qw(time);

$| = 1;
my ($name, $after) = @ARGV;
my ($told, $ends) = (0, 0);
$SIG{TERM} = sub {
  $told++;
  print "$name $$ told $told\n";
  # For who waits for this instant.
  if (open my $mark, '>', "/run/lab-$name-told") { close $mark }
  $ends ||= time + $after if $after ne 'never';
};
print "$name $$ runs\n";
until ($ends && time >= $ends) {
  select undef, undef, undef, $ends ? $ends - time : 3600;
}
print "$name $$ ends\n";
