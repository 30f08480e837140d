#!/usr/bin/perl
# A loop like the kubelet's: looks every SECONDS, and kills at once whom it finds beyond the limit.
#   slow-loop.pl SECONDS PID FILE LIMIT
use strict;
use warnings;

my ($seconds, $pid, $file, $limit) = @ARGV;
# The crossing comes at any moment between two looks.
select undef, undef, undef, rand $seconds;
while (kill 0, $pid) {
  open(my $watched, '<', $file) or die "$file: $!";
  kill 'KILL', $pid if <$watched> > $limit;
  select undef, undef, undef, $seconds;
}
