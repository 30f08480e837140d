#!/usr/bin/perl
# A loop like the kubelet's: looks every SECONDS, and kills at once whom it finds beyond the limit.
#   slow-loop.pl FIRST SECONDS PID FILE LIMIT
# FIRST: seconds until its first look. The crossing comes at any moment between two looks.
use strict;
use warnings;

my ($first, $seconds, $pid, $file, $limit) = @ARGV;
select undef, undef, undef, $first;
while (kill 0, $pid) {
  open(my $watched, '<', $file) or die "$file: $!";
  kill 'KILL', $pid if <$watched> > $limit;
  select undef, undef, undef, $seconds;
}
