#!/usr/bin/perl
# A pod of the soak: does as it is told, one command a line on standard input, and answers each with "done".
#   memory MIB RATE        hold so much anonymous memory, allocated at RATE MiB/s, or given back at once
#   touch HIGH LOW TIMES   so many times HIGH for 50 ms, then LOW for 950 ms
#   fill DIR MIB           a file of that size in DIR
#   files DIR COUNT        so many empty files in DIR
#   procs COUNT            so many children that sleep
#   release                remove the files, end the children
# Like test/lab/load.pl, but at a given pace: a soak lasts for hours beside other work.
use strict;
use warnings;
use Time::HiRes qw(time);

$| = 1;
my (@held, @made, @children);
sub release {
  unlink @made;
  kill 'KILL', @children;
  waitpid($_, 0) for @children;
  @made = @children = ();
}
$SIG{TERM} = sub { unlink @made; exit 0 };

sub nap { select(undef, undef, undef, $_[0]) }
sub hold {
  my ($mib, $rate) = @_;
  pop @held while @held > $mib;
  my ($began, $before) = (time, scalar @held);
  while (@held < $mib) {
    push @held, "\xa5" x 1048576;
    my $early = (@held - $before) / $rate - (time - $began);
    nap($early) if $early > 0.002;
  }
}
sub make {
  my ($name, $mib) = @_;
  open(my $file, '>', $name) or die "$name: $!";
  push @made, $name;
  syswrite($file, "\xa5" x 1048576) or die "$name: $!" for 1 .. $mib;
}
sub breed {
  my $pid = fork;
  return unless defined $pid;
  if ($pid == 0) { $SIG{TERM} = 'DEFAULT'; sleep 3600; exit 0 }
  push @children, $pid;
}

sub obey {
  my ($verb, @args) = split ' ', $_[0];
  if ($verb eq 'memory') { hold(@args) }
  elsif ($verb eq 'touch') {
    for (1 .. $args[2]) { hold($args[0], 1e6); nap(0.05); hold($args[1], 1e6); nap(0.95) }
  }
  elsif ($verb eq 'fill') { make("$args[0]/fill-$$-" . @made, $args[1]) }
  elsif ($verb eq 'files') { make("$args[0]/file-$$-$_", 0) for 1 .. $args[1] }
  elsif ($verb eq 'procs') { breed() for 1 .. $args[0] }
  elsif ($verb eq 'release') { release() }
  else { die "unknown command $verb" }
  print "done\n";
}

while (my $line = <STDIN>) { obey($line) }
