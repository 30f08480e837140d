#!/usr/bin/perl
# A workload that does as it is told, one command a line on standard input, or as arguments; answers each with "done".
# Perl, because it starts in 20 ms in an emulated machine as well, and is on every Debian.
#   enter DIR,DIR       make these cgroups where they are missing, and join them
#   sleep SECONDS       do nothing
#   memory MIB          hold so much anonymous memory, more or less than before
#   grow MIB RATE       hold so much more, RATE MiB a second ("max": as fast as one core takes it)
#   herd COUNT MIB RATE so many children, each of which grows like that
#   crowd COUNT         so many children that do nothing and end with it
#   strays COUNT DIR,DIR MS  the same in other cgroups than its own, one every MS; once they have ended nobody reaps them
#   spin COUNT          so many children that do nothing else than use a processor
#   pauses MS           nap for 2 ms again and again, and print each nap that took longer than MS, in ms
#   touch HIGH LOW      hold HIGH, and once a second LOW for 50 ms, for ever
#   fill DIR MIB        a file of that size in DIR
#   keep DIR MIB        the same, and it stays when the process has ended
#   cache DIR MIB       a file that stays, clean and read again and again, so that its page cache counts as active
#   unnamed DIR MIB     the same without a name: deleted, and held open
#   deep DIR LEVELS MIB a file that stays, below so many directories
#   links DIR COUNT MIB a file that stays and has another name, after so many empty ones that have another one too
#   link FROM DIR       give each file in FROM a second name in DIR
#   open FILE           hold it open
#   files DIR COUNT     so many empty files in DIR
#   bomb                fork, and let every child do the same, for ever
#   stick FILE          make that file: on a frozen file system no signal ends it
#   stubborn            ignore SIGTERM
#   flee DIR,DIR        go on at SIGTERM, in these cgroups
#   headless            end its main thread; another goes on
#   hide DIR,DIR        join cgroups below these: 70 deep, with names that are no text
#   litter DIR COUNT    so many empty cgroups in DIR, and join the last
#   churn DIR,DIR MIB   children that make cgroups there for ever, where the kernel kills because they want more than that
#   stay                go on when standard input ends
# On SIGTERM it removes the files it made, and ends: what a service does in ExecStopPost.
use strict;
use warnings;
use IO::Handle;
use Time::HiRes qw(time);

$| = 1;
my (@held, @made, $stays);
$SIG{TERM} = sub { unlink @made; exit 0 };

sub nap { select(undef, undef, undef, $_[0]) }
sub hold {
  my ($mib) = @_;
  pop @held while @held > $mib;
  push @held, "\xa5" x 1048576 while @held < $mib;
}
# In steps of a millisecond or two at any rate that a core can keep up.
sub grow {
  my ($mib, $rate) = @_;
  my ($start, $taken) = (time, 0);
  my $step = $rate eq 'max' ? 16 : $rate >= 512 ? 2 : 1;
  while ($taken < $mib) {
    push @held, "\xa5" x ($step * 1048576);
    $taken += $step;
    next if $rate eq 'max';
    my $ahead = $start + $taken / $rate - time;
    nap($ahead) if $ahead > 0.001;
  }
}
sub enter {
  for my $directory (split ',', $_[0]) {
    mkdir $directory;
    open(my $procs, '>', "$directory/cgroup.procs") or die "$directory: $!";
    syswrite($procs, "0\n") or die "$directory: $!";
  }
}
# They end with their parent (PR_SET_PDEATHSIG), each in a session of its own (setsid), so that the kernel's autogroups
# share the processors among them all. The numbers are those of x86-64, which the labs are.
sub children {
  my ($count, $work, $seconds) = @_;
  for (1 .. $count) {
    if (fork) { nap($seconds) if $seconds; next }
    syscall(157, 1, 9, 0, 0, 0);
    syscall(112);
    $work->();
    exit 0;
  }
}
# From directory to directory: 70 names of 120 bytes are more than a path may hold.
sub hide {
  for my $top (split ',', $_[0]) {
    chdir $top or die "$top: $!";
    for my $name ("a\r\xe2\x80\xa8\xff", ('d' x 120) x 70) {
      mkdir $name;
      chdir $name or die "$name: $!";
    }
    open(my $procs, '>', 'cgroup.procs') or die "cgroup.procs: $!";
    syswrite($procs, "0\n") or die "cgroup.procs: $!";
  }
  chdir '/';
}
# In a small cgroup of its own, in which the kernel has to kill: whoever makes one below it meanwhile waits for memory,
# and keeps the directory locked.
sub churn {
  my ($directories, $mib) = @_;
  my @own = map { "$_/own" } split ',', $directories;
  mkdir $_ for @own;
  for my $limit (map { ("$_/memory.limit_in_bytes", "$_/memory.max") } @own) {
    open(my $file, '>', $limit) or next;
    syswrite($file, $mib * 1048576);
  }
  children(24, sub {
    for (my $i = 0; ; $i++) {
      my @new = map { "$_/$$-$i" } @own;
      mkdir $_ for @new;
      next if fork;
      enter(join ',', @new);
      hold(4);
      nap(60) while 1;
    }
  });
}
sub headless {
  require threads;
  threads->create(sub {
    nap(0.1);
    print "done\n";
    while (my $line = <STDIN>) { obey($line) }
  });
  # exit(2) of this thread alone; the number is that of x86-64, which the labs are.
  syscall(60, 0);
}
sub make {
  my ($name, $mib) = @_;
  open(my $file, '>', $name) or die "$name: $!";
  push @made, $name;
  syswrite($file, "\xa5" x 1048576) or die "$name: $!" for 1 .. $mib;
}

sub fill_up {
  my ($name, $mib, $is_unnamed) = @_;
  open(my $file, '>', $name) or die "$name: $!";
  unlink $name if $is_unnamed;
  syswrite($file, "\xa5" x 1048576) or die "$name: $!" for 1 .. $mib;
  return $file;
}
sub cache {
  my ($directory, $mib) = @_;
  my $name = "$directory/cache-$$";
  my $file = fill_up($name, $mib);
  $file->flush;
  $file->sync;
  for (1 .. 3) {
    open(my $again, '<', $name) or die "$name: $!";
    1 while sysread($again, my $bytes, 1048576);
  }
}
sub deep {
  my ($directory, $levels, $mib) = @_;
  chdir $directory or die "$directory: $!";
  for (1 .. $levels) { mkdir 'deeper-and-deeper'; chdir 'deeper-and-deeper' or die "level $_: $!" }
  fill_up('deepest', $mib);
  chdir '/';
}
sub links {
  my ($directory, $count, $mib) = @_;
  for (1 .. $count) { open(my $file, '>', "$directory/a-$_") or die $!; link "$directory/a-$_", "$directory/b-$_" }
  fill_up("$directory/z", $mib);
  link "$directory/z", "$directory/z-again";
}

sub link_all {
  my ($from, $directory) = @_;
  for my $file (grep { -f } glob "$from/*") { my ($name) = $file =~ m{([^/]+)$}; link $file, "$directory/$name" or die "$file: $!" }
}

sub obey {
  my ($verb, @args) = split ' ', $_[0];
  if ($verb eq 'memory') { hold($args[0]) }
  elsif ($verb eq 'sleep') { nap($args[0]) }
  elsif ($verb eq 'enter') { enter($args[0]) }
  elsif ($verb eq 'grow') { grow(@args) }
  elsif ($verb eq 'herd') { my $count = shift @args; children($count, sub { grow(@args); nap(60) while 1 }) }
  elsif ($verb eq 'crowd') { children($args[0], sub { nap(60) while 1 }) }
  elsif ($verb eq 'strays') { my ($count, $directories, $ms) = @args; children($count, sub { enter($directories); nap(60) while 1 }, $ms / 1000) }
  elsif ($verb eq 'spin') { children($args[0], sub { while (1) { } }) }
  elsif ($verb eq 'pauses') {
    print "done\n";
    for (my $at = time; ; ) {
      nap(0.002);
      my $now = time;
      printf "%.1f\n", 1000 * ($now - $at) if $now - $at > $args[0] / 1000;
      $at = $now;
    }
  }
  elsif ($verb eq 'touch') {
    print "done\n";
    while (1) { hold($args[0]); nap(0.95); hold($args[1]); nap(0.05) }
  }
  elsif ($verb eq 'fill') { make("$args[0]/fill-$$", $args[1]) }
  elsif ($verb eq 'keep') { fill_up("$args[0]/keep-$$", $args[1]) }
  elsif ($verb eq 'cache') { cache(@args) }
  elsif ($verb eq 'unnamed') { push @held, fill_up("$args[0]/unnamed-$$", $args[1], 1) }
  elsif ($verb eq 'deep') { deep(@args) }
  elsif ($verb eq 'links') { links(@args) }
  elsif ($verb eq 'link') { link_all(@args) }
  elsif ($verb eq 'open') { open(my $file, '<', $args[0]) or die "$args[0]: $!"; push @held, $file }
  elsif ($verb eq 'files') { make("$args[0]/file-$$-$_", 0) for 1 .. $args[1] }
  elsif ($verb eq 'bomb') {
    print "done\n";
    # fork fails at the limit of the cgroup; then it tries again.
    while (1) { fork; nap(0.01) }
  }
  elsif ($verb eq 'stick') { print "done\n"; make($args[0], 0) }
  elsif ($verb eq 'headless') { headless() }
  elsif ($verb eq 'hide') { hide($args[0]) }
  elsif ($verb eq 'litter') {
    mkdir "$args[0]/$_" for 1 .. $args[1];
    enter("$args[0]/$args[1]");
  }
  elsif ($verb eq 'churn') { churn(@args) }
  elsif ($verb eq 'stubborn') { $SIG{TERM} = 'IGNORE' }
  elsif ($verb eq 'flee') { my $directories = $args[0]; $SIG{TERM} = sub { enter($directories) } }
  elsif ($verb eq 'stay') { $stays = 1 }
  else { die "unknown command $verb" }
  print "done\n";
}

obey($_) for @ARGV;
while (my $line = <STDIN>) { obey($line) }
while ($stays) { nap(60) }
