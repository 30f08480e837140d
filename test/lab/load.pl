#!/usr/bin/perl
# A workload that does as it is told, one command a line on standard input, or as arguments; answers each with "done".
# Perl, because it starts in 20 ms in an emulated machine as well, and is on every Debian.
#   memory MIB          hold so much anonymous memory, more or less than before
#   touch HIGH LOW      hold HIGH, and once a second LOW for 50 ms, for ever
#   fill DIR MIB        a file of that size in DIR
#   files DIR COUNT     so many empty files in DIR
#   bomb                fork, and let every child do the same, for ever
#   stubborn            ignore SIGTERM
#   stay                go on when standard input ends
# On SIGTERM it removes the files it made, and ends: what a service does in ExecStopPost.
use strict;
use warnings;

$| = 1;
my (@held, @made, $stays);
$SIG{TERM} = sub { unlink @made; exit 0 };

sub nap { select(undef, undef, undef, $_[0]) }
sub hold {
  my ($mib) = @_;
  pop @held while @held > $mib;
  push @held, "\xa5" x 1048576 while @held < $mib;
}
sub make {
  my ($name, $mib) = @_;
  open(my $file, '>', $name) or die "$name: $!";
  push @made, $name;
  syswrite($file, "\xa5" x 1048576) or die "$name: $!" for 1 .. $mib;
}

sub obey {
  my ($verb, @args) = split ' ', $_[0];
  if ($verb eq 'memory') { hold($args[0]) }
  elsif ($verb eq 'touch') {
    print "done\n";
    while (1) { hold($args[0]); nap(0.95); hold($args[1]); nap(0.05) }
  }
  elsif ($verb eq 'fill') { make("$args[0]/fill-$$", $args[1]) }
  elsif ($verb eq 'files') { make("$args[0]/file-$$-$_", 0) for 1 .. $args[1] }
  elsif ($verb eq 'bomb') {
    print "done\n";
    # fork fails at the limit of the cgroup; then it tries again.
    while (1) { fork; nap(0.01) }
  }
  elsif ($verb eq 'stubborn') { $SIG{TERM} = 'IGNORE' }
  elsif ($verb eq 'stay') { $stays = 1 }
  else { die "unknown command $verb" }
  print "done\n";
}

obey($_) for @ARGV;
while (my $line = <STDIN>) { obey($line) }
while ($stays) { nap(60) }
