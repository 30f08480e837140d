#!/usr/bin/perl
# What takes memory, until it is killed:
#   after FILE VERB ...  the same as VERB, once there is such a file
#   hold MIB            so much anonymous memory, touched again and again so that it stays in memory
#   grow MIB RATE       anonymous memory up to MIB, RATE MiB a second; then it stays
#   thrash MIB RATE     the same, a quarter of each page not to be compressed; then all of its pages are written in turn, none beside the last
#   read FILE           the file again and again, by read and by mmap in turn: a page cache in use
#   reread FILE [RATE]  pages of the file at random, of which the kernel cannot guess the next: each miss waits for the disk;
#                       and then RATE MiB a second of anonymous memory, beside which there is less and less room for the file
#   pipes MIB RATE      pipes that nobody reads, up to MIB, RATE MiB a second: memory that neither its processes' figures nor
#                       /proc/meminfo name
#   messages MIB        System V messages from a process of the root cgroup: memory of the kernel that is nobody's
use strict;
use warnings;
use Fcntl qw(F_SETFL O_NONBLOCK);
use Time::HiRes qw(sleep time);

my ($verb, @args) = @ARGV;
if ($verb eq 'after') {
  my $gate = shift @args;
  sleep 0.1 until -e $gate;
  $verb = shift @args;
}
my $MIB = 1048576;
# Of x86-64, which the guest is: perl has no mmap of its own.
my ($SYS_MMAP, $SYS_MUNMAP, $PROT_READ, $MAP_SHARED) = (9, 11, 1, 1);
my ($SYS_FADVISE64, $POSIX_FADV_RANDOM) = (221, 1);
my $F_SETPIPE_SZ = 1031;

if ($verb eq 'hold') {
  my @held = map { "\xa5" x $MIB } 1 .. $args[0];
  while (1) { for my $part (@held) { for (my $at = 0; $at < $MIB; $at += 4096) { substr($part, $at, 1) = 'x' } } sleep 3 }
}
elsif ($verb eq 'grow') {
  my ($mib, $rate) = @args;
  my ($from, @held) = (time);
  while (@held < $mib) {
    # Not to be compressed or shared by anybody.
    push @held, pack('L*', map { int(rand(4294967296)) } 1 .. 1024) x 256;
    my $ahead = $from + @held / $rate - time;
    sleep $ahead if $ahead > 0;
  }
  sleep 60 while 1;
}
elsif ($verb eq 'thrash') {
  my ($mib, $rate) = @args;
  my ($from, @held) = (time);
  while (@held < $mib) {
    my $page = pack('L*', map { int(rand(4294967296)) } 1 .. 256) . "\0" x 3072;
    push @held, $page x 256;
    my $ahead = $from + @held / $rate - time;
    sleep $ahead if $ahead > 0;
  }
  # Neither what was used last nor what lies near it is used next: the kernel's guesses do not help.
  for (my $at = 0; ; $at = ($at + 7919) % ($mib * 256)) { substr($held[$at / 256], 4096 * ($at % 256), 1) = 'x' }
}
elsif ($verb eq 'read') {
  my $size = -s $args[0];
  open(my $file, '<', $args[0]) or die "$args[0]: $!";
  while (1) {
    sysseek($file, 0, 0);
    while (sysread($file, my $part, $MIB)) { }
    for (my $at = 0; $at + 64 * $MIB <= $size; $at += 64 * $MIB) {
      my $address = syscall($SYS_MMAP, 0, 64 * $MIB, $PROT_READ, $MAP_SHARED, fileno($file), $at);
      die "mmap: $!" if $address == -1;
      # Twice: a mapped page that is used again becomes an active one.
      for (1 .. 2) { for my $i (0 .. 63) { my $part = unpack("P$MIB", pack('Q', $address + $i * $MIB)) } }
      syscall($SYS_MUNMAP, $address, 64 * $MIB);
    }
  }
}
elsif ($verb eq 'reread') {
  open(my $file, '<', $args[0]) or die "$args[0]: $!";
  my ($pages, $rate, $last) = ((-s $file) / 4096, $args[1] // 0, 0);
  my ($from, @held);
  # The one before again: pages that were used twice are in use, and to miss those is what counts as a stall.
  my $read = sub {
    for my $at ($_[0], $last) { sysseek($file, $at * 4096, 0); sysread($file, my $part, 4096) }
    $last = $_[0];
    push @held, 'x' x $MIB if $from && @held < (time - $from) * $rate;
  };
  # While the kernel reads ahead: all of them were in use and have lost their place by then.
  for (1 .. 2) { $read->($_) for 0 .. $pages - 1 }
  syscall($SYS_FADVISE64, fileno($file), 0, 0, $POSIX_FADV_RANDOM) == 0 or die "fadvise: $!";
  $from = time;
  $read->(int(rand($pages))) while 1;
}
elsif ($verb eq 'messages') {
  open(my $root, '>', '/sys/fs/cgroup/cgroup.procs') or die "root cgroup: $!";
  syswrite($root, "$$\n") or die "root cgroup: $!";
  open(my $limit, '>', '/proc/sys/kernel/msgmnb') or die "msgmnb: $!";
  print $limit 2147483647; close($limit);
  my $queue = msgget(0, 0600) // die "msgget: $!";
  $SIG{TERM} = sub { msgctl($queue, 0, 0); exit 0 };
  # With its head a message fills a page.
  my $message = pack('l! a*', 1, 'x' x 4000);
  for (1 .. $args[0] * 256) { msgsnd($queue, $message, 0) or die "msgsnd: $!" }
  sleep 60 while 1;
}
elsif ($verb eq 'pipes') {
  my ($mib, $rate) = @args;
  my ($from, @held) = (time);
  while (@held < $mib) {
    pipe(my $out, my $in) or die "pipe: $!";
    fcntl($in, $F_SETPIPE_SZ, $MIB) or die "pipe size: $!";
    # Its pages may be fewer than its size says.
    fcntl($in, F_SETFL, O_NONBLOCK) or die "pipe: $!";
    1 while syswrite($in, 'x' x 65536);
    push @held, [$out, $in];
    my $ahead = $from + @held / $rate - time;
    sleep $ahead if $ahead > 0;
  }
  sleep 60 while 1;
}
else { die "unknown command $verb" }
