#!/usr/bin/perl
# Allocates memory at a steady rate until it is killed, and leaves behind when a threshold was crossed and when it died.
#   hog.pl LOG HOLD_MIB RATE_MIB_S|max [STAY_MIB]
# With "FILE LIMIT DIR,DIR" it first makes these cgroups and joins them: what it takes then is charged there.
# Holds HOLD_MIB, says "ready", and allocates on when it reads a line "FILE LIMIT": where it looks for the crossing after each
# step, a number that rises above LIMIT, or MemAvailable of /proc/meminfo that falls below. With STAY_MIB it takes so much more
# after the crossing and then stays. LOG gets "went MS" and "crossed MS BYTES", what it took from the one to the other;
# LOG.beat has the clock of its last moment and what it last read. All clocks are CLOCK_MONOTONIC.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($log, $hold, $rate, $stay) = @ARGV;
my $step = $rate eq 'max' || $rate >= 200 ? 1048576 : 262144;
my ($crossed, $watched, $limit, @held);
my $value = 0;
open(my $out, '>', $log) or die "$log: $!";
open(my $beat, '+>', "$log.beat") or die "$log.beat: $!";
$| = 1;

sub ms { clock_gettime(CLOCK_MONOTONIC) * 1000 }
sub is_crossed {
  sysseek($watched, 0, 0);
  sysread($watched, my $text, 4096);
  if ($text =~ /^MemAvailable:\s+(\d+)/m) { $value = $1 * 1024; return $value < $limit }
  $value = $text + 0;
  return $value > $limit;
}
# Always as long as the one before.
sub mark { sysseek($beat, 0, 0); syswrite($beat, sprintf('%16.3f %16d', ms(), $value)) }

push @held, "\xa5" x 1048576 for 1 .. $hold;
mark();
print "ready\n";
(my $file, $limit, my $cgroups) = split ' ', <STDIN>;
open($watched, '<', $file) or die "$file: $!";
for my $cgroup (split ',', $cgroups // '') {
  mkdir $cgroup or die "$cgroup: $!";
  open(my $procs, '>', "$cgroup/cgroup.procs") or die "$cgroup: $!";
  syswrite($procs, "0\n") or die "$cgroup: $!";
}
my ($start, $bytes) = (ms(), 0);
syswrite($out, sprintf("went %.3f\n", $start));
while (1) {
  push @held, "\xa5" x $step;
  $bytes += $step;
  if (!$crossed && is_crossed()) { $crossed = $bytes; syswrite($out, sprintf("crossed %.3f %d\n", ms(), $bytes)) }
  # Its last moment is known to a part of a millisecond, also while it waits.
  do { mark() } while ($rate ne 'max' && $bytes / 1048.576 / $rate > ms() - $start);
  while ($stay && $crossed && $bytes - $crossed >= $stay * 1048576) { mark(); select undef, undef, undef, 0.0002 }
}
