#!/usr/bin/perl
# What memory was like meanwhile, by somebody who does not stall: locked in memory, before all others at the processor.
#   stall-watch.pl FILE SECONDS kill|leave PID...
# Ten times a second a line: ms on the monotonic clock, ms in which all tasks were stalled on memory, the values of FIELDS in
# KiB, file pages read again since they were reclaimed, and of each process 1 while it has memory, else 0. Ends a second after
# the first of them has none. With `kill` it ends the first that was named when the time is over: nothing else might get that far.
use strict;
use warnings;
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);

my @FIELDS = qw(MemTotal SwapFree AnonPages Shmem Unevictable Slab KernelStack PageTables Percpu SReclaimable Dirty
  Writeback Hugetlb Cached Buffers Active(file) Inactive(file));
# 1 MiB.
my $LEAST_PAGES = 256;
# Of x86-64, which the guest is.
my ($SYS_MLOCKALL, $SYS_SCHED_SETSCHEDULER, $MCL_CURRENT_AND_FUTURE, $SCHED_RR) = (151, 144, 3, 2);

my ($file, $seconds, $end, @pids) = @ARGV;
open(my $out, '>', $file) or die "$file: $!";
my $priority = pack('i', 50);
syscall($SYS_SCHED_SETSCHEDULER, 0, $SCHED_RR, $priority) == 0 or die "sched_setscheduler: $!";
syscall($SYS_MLOCKALL, $MCL_CURRENT_AND_FUTURE) == 0 or die "mlockall: $!";

sub content { open(my $in, '<', $_[0]) or return ''; sysread($in, my $text, 65536); return $text // '' }
# One that was sent SIGKILL while it waits for the disk may be there long after its memory has been freed for it.
sub lives { my (undef, $resident) = split ' ', content("/proc/$_[0]/statm"); return ($resident // 0) > $LEAST_PAGES ? 1 : 0 }

my $from = clock_gettime(CLOCK_MONOTONIC);
my $until = $from + $seconds;
while ((my $now = clock_gettime(CLOCK_MONOTONIC)) < $until) {
  my ($stalled) = content('/proc/pressure/memory') =~ /^full .*total=(\d+)/m;
  my %meminfo = content('/proc/meminfo') =~ /^(\S+): +(\d+)/gm;
  my ($refaults) = content('/proc/vmstat') =~ /^workingset_refault_file (\d+)/m;
  my @lives = map { lives($_) } @pids;
  syswrite($out, join(' ', int($now * 1000), int($stalled / 1000), (map { $meminfo{$_} } @FIELDS), $refaults, @lives) . "\n");
  $until = $now + 1 if $until > $now + 1 && grep { !$_ } @lives;
  sleep 0.1;
}
kill 'KILL', $pids[0] if $end eq 'kill' && lives($pids[0]) && clock_gettime(CLOCK_MONOTONIC) >= $from + $seconds;
