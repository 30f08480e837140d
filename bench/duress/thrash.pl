#!/usr/bin/perl
# Keeps the memory of its cgroup short until it is killed: dirties ANON_MIB again and again, and reads FILE in between.
#   duress-thrash.pl ANON_MIB FILE
use strict;
use warnings;

my ($mib, $file) = @ARGV;
my @held = map { "\xa5" x 1048576 } 1 .. $mib;
$| = 1;
print "ready\n";
while (1) {
  for my $i (0 .. $#held) {
    substr($held[$i], 4096 * $_, 1) = 'x' for 0 .. 255;
  }
  open(my $in, '<', $file) or die "$file: $!";
  1 while sysread($in, my $chunk, 1048576);
}
