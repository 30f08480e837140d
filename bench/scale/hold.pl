#!/usr/bin/perl
# Puts a sleeping process into each pod: a line of standard input names the directories that it joins. Prints "ready";
# ends with all of them when standard input ends.
use strict;
use warnings;

$| = 1;
my @children;
while (my $line = <STDIN>) {
  chomp $line;
  last if $line eq '';
  pipe(my $joined, my $tell) or die "pipe: $!";
  my $child = fork // die "fork: $!";
  if ($child == 0) {
    for my $directory (split ' ', $line) {
      open(my $procs, '>', "$directory/cgroup.procs") or die "$directory: $!";
      syswrite($procs, '0') or die "$directory: $!";
    }
    close $joined;
    syswrite($tell, '.');
    close $tell;
    sleep 3600 while 1;
  }
  push @children, $child;
  close $tell;
  sysread($joined, my $dot, 1) or die "a process did not get into $line";
}
print "ready\n";
<STDIN>;
kill 'KILL', @children;
waitpid($_, 0) for @children;
