# A FUSE server for one flat directory whose answers may be late or errors. Descriptor 3 is /dev/fuse; the arguments are the
# directory with the real files and a file with orders, which is read before each answer: "delay SECONDS", "fail CALL NAME"
# (EIO; CALL is lookup, open, read or readdir, NAME a file or "."), "hang NUMBER" (no call of this opcode is ever answered), "hang NUMBER NAME" (none about this file). What is written through the mount is passed on.
use strict;
use warnings;
use Fcntl;
use POSIX ();

my ( $directory, $orders ) = @ARGV;
open my $fuse, '+<&=', 3 or die "descriptor 3: $!";
binmode $fuse;
my ( %names, %ids ) = ( 1 => '.' );
my ( %opened, $next );
$ids{'.'} = $next = 1;

sub answer {
    my ( $unique, $error, $data ) = @_;
    $data //= '';
    syswrite $fuse, pack( 'L l Q', 16 + length $data, -$error, $unique ) . $data;
}

sub attributes {
    my ($name) = @_;
    my @facts = stat "$directory/$name" or return;
    my $fraction = ( Time::HiRes::stat("$directory/$name") )[10];
    my $nanoseconds = int( ( $fraction - int $fraction ) * 1e9 );
    return pack 'Q6 L10', $ids{$name}, $facts[7], 1, @facts[ 8 .. 10 ], 0, $nanoseconds, $nanoseconds, $facts[2], 1,
        $facts[4], $facts[5], 0, 4096, 0;
}

sub entry {
    my ($name) = @_;
    $ids{$name} //= ++$next;
    $names{ $ids{$name} } = $name;
    my $attributes = attributes($name) or return;
    return pack( 'Q4 L2', $ids{$name}, 0, 0, 0, 0, 0 ) . $attributes;
}

sub handle {
    my ( $name, $flags ) = @_;
    sysopen my $file, "$directory/$name", $flags & ~( O_EXCL | O_NOFOLLOW ), 0644 or return;
    $opened{ fileno $file } = $file;
    return pack 'Q L2', fileno $file, 1, 0;    # FOPEN_DIRECT_IO
}

use Time::HiRes ();
while ( sysread $fuse, my $request, 1 << 18 ) {
    my ( undef, $call, $unique, $id ) = unpack 'L L Q Q', $request;
    my $body = substr $request, 40;
    next if $call == 2 or $call == 36 or $call == 42;    # FORGET, INTERRUPT, BATCH_FORGET
    if ( $call == 26 ) {                                 # INIT
        answer( $unique, 0, pack 'L4 S2 L2 S2 L8', 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, (0) x 8 );
        syswrite STDOUT, "mounted\n";
        next;
    }
    my $order = do { local ( @ARGV, $/ ) = $orders; -e $orders ? <> // '' : '' };
    Time::HiRes::sleep($1) if $order =~ /delay ([\d.]+)/;
    my $name = $names{$id} // '.';
    next if $order =~ /^hang $call(?: \Q$name\E)?$/m;
    my $fails = sub { my ( $what, $whose ) = @_; $order =~ /^fail $what \Q$whose\E$/m };
    my $give  = sub { defined $_[0] ? answer( $unique, 0, $_[0] ) : answer( $unique, $!{ENOENT} ? 2 : 5 ) };
    if ( $call == 1 ) {                                  # LOOKUP
        my $wanted = unpack 'Z*', $body;
        if ( $fails->( 'lookup', $wanted ) ) { answer( $unique, 5 ) }
        else                                 { $give->( entry($wanted) ) }
    }
    elsif ( $call == 3 or $call == 4 ) {                 # GETATTR, SETATTR
        my ( $valid, undef, undef, $size ) = unpack 'L L Q Q', $body;
        truncate "$directory/$name", $size if $call == 4 and $valid & 8;
        my $attributes = attributes($name);
        $give->( defined $attributes ? pack( 'Q L2', 0, 0, 0 ) . $attributes : undef );
    }
    elsif ( $call == 14 ) {                              # OPEN
        if ( $fails->( 'open', $name ) ) { answer( $unique, 5 ) }
        else                             { $give->( handle( $name, unpack 'L', $body ) ) }
    }
    elsif ( $call == 35 ) {                              # CREATE
        my ( $flags, $created ) = unpack 'L x12 Z*', $body;
        my $handle = handle( $created, $flags | O_CREAT );
        $give->( defined $handle ? entry($created) . $handle : undef );
    }
    elsif ( $call == 15 ) {                              # READ
        my ( $handle, $offset, $size ) = unpack 'Q Q L', $body;
        if ( $fails->( 'read', $name ) ) { answer( $unique, 5 ); next }
        sysseek $opened{$handle}, $offset, 0;
        sysread $opened{$handle}, ( my $data ), $size;
        answer( $unique, 0, $data );
    }
    elsif ( $call == 16 ) {                              # WRITE
        my ( $handle, $offset, $size ) = unpack 'Q Q L', $body;
        sysseek $opened{$handle}, $offset, 0;
        syswrite $opened{$handle}, substr( $body, 40 ), $size;
        answer( $unique, 0, pack 'L2', $size, 0 );
    }
    elsif ( $call == 10 ) {                              # UNLINK
        unlink "$directory/" . unpack 'Z*', $body;
        answer( $unique, 0 );
    }
    elsif ( $call == 27 ) { answer( $unique, 0, pack 'Q L2', 0, 0, 0 ) }    # OPENDIR
    elsif ( $call == 28 ) {                                                 # READDIR
        my ( undef, $offset ) = unpack 'Q Q', $body;
        if ( $fails->( 'readdir', '.' ) ) { answer( $unique, 5 ); next }
        opendir my $listing, $directory or die;
        my ( $entries, $position ) = ( '', 0 );
        for my $found ( sort readdir $listing ) {
            next if $position++ < $offset;
            my $one = pack 'Q Q L L a*', 1, $position, length $found, 0, $found;
            $one .= "\0" x ( -length($one) % 8 );
            last if length($entries) + length($one) > 4096;
            $entries .= $one;
        }
        answer( $unique, 0, $entries );
    }
    elsif ( $call == 18 ) { delete $opened{ unpack 'Q', $body }; answer( $unique, 0 ) }    # RELEASE
    elsif ( $call == 29 or $call == 25 ) { answer( $unique, 0 ) }                          # RELEASEDIR, FLUSH
    else                                 { answer( $unique, 38 ) }                         # ENOSYS
}
