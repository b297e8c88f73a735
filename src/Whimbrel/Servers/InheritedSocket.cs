using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Socket that another process created and passed to this one: systemd (socket activation), a supervisor, or the
/// process that is replaced. Use it as an end point of <see cref="ServerOptions"/>, or of a datagram socket. The server
/// listens on a duplicate of the descriptor. The original stays open, so that a restart listens again. A stop leaves
/// waiting connections to the next process, and deletes no Unix path. <c>Backlog</c> and the options of a bind have no
/// effect. As text: <c>systemd:NAME</c> and <c>fd:NUMBER</c> (<see cref="NetworkAddress"/>). Immutable; any thread.
/// Linux, on the epoll and io_uring engines.
/// </summary>
public sealed class InheritedSocket : EndPoint
{
    private const string NoLinux = "Sockets of other processes are used on Linux only: listen on an address";

    private int _isTaken;

    /// <summary>Uses a descriptor of this process. It stays the caller's, and open as long as servers use it.</summary>
    /// <param name="descriptor">Number of the descriptor: a listening TCP or Unix socket, or a datagram socket.</param>
    /// <param name="name">Name for messages and for <c>systemd:NAME</c>; may be empty.</param>
    /// <exception cref="ArgumentException">The descriptor is not open, or is no such socket; the message says
    /// which.</exception>
    /// <exception cref="PlatformNotSupportedException">The system is not Linux.</exception>
    public InheritedSocket(int descriptor, string name = "")
    {
        ArgumentOutOfRangeException.ThrowIfNegative(descriptor);
        ArgumentNullException.ThrowIfNull(name);
        if (!KernelProbe.IsLinux) throw new PlatformNotSupportedException($"{NoLinux}.");
        if (Inspect(descriptor, name, out EndPoint? bound, out SocketType type) is { } mistake)
            throw new ArgumentException($"{mistake}.", nameof(descriptor));
        (Descriptor, Name, LocalEndPoint, SocketType) = (descriptor, name, bound!, type);
    }

    private InheritedSocket(int descriptor, string name, EndPoint bound, SocketType type) =>
        (Descriptor, Name, LocalEndPoint, SocketType) = (descriptor, name, bound, type);

    /// <summary>
    /// True for a socket of a <see cref="ProcessUpgrade"/>: the listener takes over the descriptor itself, and
    /// <see cref="Name"/> is the address that the first process was given.
    /// </summary>
    internal bool IsClaimed { get; init; }

    /// <summary>Number of the descriptor in this process.</summary>
    public int Descriptor { get; }

    /// <summary>Name that systemd gave (<c>FileDescriptorName=</c>) or the constructor got; may be empty.</summary>
    public string Name { get; }

    /// <summary>Address to which the socket is bound.</summary>
    public EndPoint LocalEndPoint { get; }

    /// <summary><see cref="SocketType.Stream"/> or <see cref="SocketType.Dgram"/>.</summary>
    public SocketType SocketType { get; }

    /// <inheritdoc/>
    public override AddressFamily AddressFamily => LocalEndPoint.AddressFamily;

    /// <summary>
    /// Returns the sockets that systemd passed to this process (<c>LISTEN_FDS</c>), in the order of its units; empty if
    /// it was not started by a socket unit. Descriptors of other kinds (FIFOs, special files) are left out. The first
    /// call reads the environment, removes the variables, and closes the descriptors in child processes.
    /// </summary>
    public static IReadOnlyList<InheritedSocket> FromSystemd() => SystemdSockets.OfProcess.Sockets;

    /// <summary>Returns the address, with number and name.</summary>
    public override string ToString() => string.Create(CultureInfo.InvariantCulture,
        $"{LocalEndPoint} (descriptor {Descriptor}{(Name.Length > 0 ? $", {Name}" : "")})");

    /// <summary>
    /// Returns the socket of a descriptor. Otherwise null, and <paramref name="mistake"/> has the reason, without a
    /// full stop.
    /// </summary>
    internal static InheritedSocket? Find(int descriptor, string name, out string? mistake)
    {
        EndPoint? bound = null;
        SocketType type = default;
        mistake = KernelProbe.IsLinux ? Inspect(descriptor, name, out bound, out type) : NoLinux;
        return mistake is null ? new InheritedSocket(descriptor, name, bound!, type) : null;
    }

    /// <summary>The same for a descriptor that the caller owns, until a listener takes it over.</summary>
    internal static InheritedSocket? Claim(int descriptor, string given, out string? mistake)
    {
        mistake = Inspect(descriptor, given, out EndPoint? bound, out SocketType type);
        return mistake is null ? new InheritedSocket(descriptor, given, bound!, type) { IsClaimed = true } : null;
    }

    /// <summary>
    /// Returns the descriptor of a claimed socket, which the caller owns from now on. -1 if another one has it.
    /// </summary>
    internal int Take() => Interlocked.Exchange(ref _isTaken, 1) == 0 ? Descriptor : -1;

    /// <summary>Returns why the descriptor cannot be used, or null.</summary>
    private static string? Inspect(int descriptor, string name, out EndPoint? bound, out SocketType type) =>
        Look(descriptor, out bound, out type) is { } fault
            ? $"Descriptor {descriptor}{(name.Length > 0 ? $" ({name})" : "")} {fault}"
            : null;

    // Safe: the kernel writes one integer.
    private static unsafe string? Look(int descriptor, out EndPoint? bound, out SocketType type)
    {
        bound = null;
        type = SocketType.Unknown;
        int kind = 0, listens = 0;
        uint length = sizeof(int);
        if (Syscall.GetSocketOption(descriptor, SocketAbi.SOL_SOCKET, SocketAbi.SO_TYPE, &kind, &length) != 0)
            return Syscall.LastError == Errno.EBADF ? "is not open" : "is not a socket";
        if (kind is not (SocketAbi.SOCK_STREAM or DatagramAbi.SOCK_DGRAM))
            return "is a socket of another kind than stream and datagram";
        type = kind == SocketAbi.SOCK_STREAM ? SocketType.Stream : SocketType.Dgram;
        length = sizeof(int);
        _ = Syscall.GetSocketOption(descriptor, SocketAbi.SOL_SOCKET, SocketAbi.SO_ACCEPTCONN, &listens, &length);
        if (type == SocketType.Stream && listens == 0)
            return "is a stream socket that does not listen: a socket unit needs Accept=no, which is the default";
        using SafeSocketHandle handle = new(descriptor, ownsHandle: false);
        using Socket socket = new(handle);
        bound = socket.LocalEndPoint;
        return bound is IPEndPoint or UnixDomainSocketEndPoint ? null : "has an address that is neither IP nor Unix";
    }
}
