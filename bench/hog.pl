#!/usr/bin/perl
# Allocates memory at a steady rate until it is killed, and leaves behind when a threshold was crossed and when it died.
#   hog.pl LOG HOLD_MIB RATE_MIB_S|max
# Holds HOLD_MIB, says "ready", and allocates on when it reads a line "FILE LIMIT": where it looks for the crossing after each
# step, a number that rises above LIMIT, or MemAvailable of /proc/meminfo that falls below. LOG gets "crossed MS", and
# LOG.beat the clock of its last moment; both CLOCK_MONOTONIC.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($log, $hold, $rate) = @ARGV;
my $step = $rate eq 'max' || $rate >= 200 ? 1048576 : 262144;
my ($crossed, $watched, $limit, @held);
open(my $out, '>', $log) or die "$log: $!";
open(my $beat, '+>', "$log.beat") or die "$log.beat: $!";
$| = 1;

sub ms { clock_gettime(CLOCK_MONOTONIC) * 1000 }
sub is_crossed {
  sysseek($watched, 0, 0);
  sysread($watched, my $text, 4096);
  return $1 * 1024 < $limit if $text =~ /^MemAvailable:\s+(\d+)/m;
  return $text > $limit;
}
sub mark { sysseek($beat, 0, 0); syswrite($beat, sprintf('%.3f', ms())) }

push @held, "\xa5" x 1048576 for 1 .. $hold;
mark();
print "ready\n";
(my $file, $limit) = split ' ', <STDIN>;
open($watched, '<', $file) or die "$file: $!";
my ($start, $bytes) = (ms(), 0);
while (1) {
  push @held, "\xa5" x $step;
  $bytes += $step;
  if (!$crossed && is_crossed()) { $crossed = 1; syswrite($out, sprintf("crossed %.3f\n", ms())) }
  # Its last moment is known to a part of a millisecond, also while it waits.
  do { mark() } while ($rate ne 'max' && $bytes / 1048.576 / $rate > ms() - $start);
}
