using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Socket object of a handle for user code, over a duplicate of its descriptor, so that late or repeated calls on it
/// cannot affect another socket. Created on demand, or beforehand by the user (Socket.Create); disposed directly before
/// the handle's own descriptor is closed. Its owner serializes access from any thread by the loop's lock.
/// </summary>
internal struct SocketShare
{
    private RawSocket _source;
    private Socket? _object;
    private bool _isOpen;

    /// <summary>True if there was an object: user code may have created further duplicates.</summary>
    internal bool WasUsed { get; private set; }

    /// <summary>Argument of <see cref="Begin"/>, until <see cref="End"/>.</summary>
    internal readonly RawSocket Source => _source;

    internal void Begin(RawSocket source)
    {
        _source = source;
        _isOpen = true;
        _object = source.Made;
        WasUsed = source.Made is not null;
    }

    /// <summary>
    /// Ends sharing and returns the object, which the caller disposes. Null for the engine's own object, which the
    /// engine disposes.
    /// </summary>
    internal Socket? End()
    {
        Socket? last = ReferenceEquals(_object, _source.Handle) ? null : _object;
        _object = null;
        _source = default;
        _isOpen = false;
        return last;
    }

    internal void Forget() => this = default;

    /// <summary>
    /// Returns the object, which is created on the first call. Null if the handle has no socket, or none any more.
    /// </summary>
    internal Socket? Get()
    {
        if (!_isOpen || _source.Handle is not (null or Socket)) return null;
        WasUsed = true;
        return _object ??= Duplicate(_source);
    }

    /// <summary>
    /// Returns a duplicate of the descriptor, which the caller owns; negative if there is none. Linux.
    /// </summary>
    internal readonly int DuplicateDescriptor() =>
        _isOpen && _source.Handle is null ? Syscall.Duplicate(_source.Number) : -1;

    // ------------------------------------------------------------------ objects

    /// <summary>
    /// Creates another object with a descriptor of its own. On other systems than Linux it borrows the handle, and is
    /// disposed before that is closed.
    /// </summary>
    internal static Socket Duplicate(RawSocket source)
    {
        if (!KernelProbe.IsLinux)
            return new Socket(new SafeSocketHandle(((Socket)source.Handle!).Handle, ownsHandle: false));
        int fd = Syscall.Duplicate(source.Number);
        if (fd < 0)
            throw new NetworkException(new NetworkError(-fd, ErrorCategory.Limit,
                $"Cannot duplicate the descriptor of a socket: {ErrorText.Of(-fd)} (error {-fd})."));
        SafeSocketHandle handle = new(fd, ownsHandle: true);
        try
        {
            return new Socket(handle);
        }
        catch
        {
            handle.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Calls the user's factory. Returns null and the problem if its socket cannot be used for the address.
    /// </summary>
    internal static Socket? Create(Func<EndPoint, Socket> create, EndPoint endPoint, SocketType type,
        out NetworkException? fault)
    {
        // Datagram options have no groups.
        string option = type == SocketType.Dgram ? "CreateSocket" : "Socket.Create";
        fault = null;
        Exception? thrown = null;
        string why;
        Socket? socket = null;
        try
        {
            socket = create(endPoint);
            why = socket is null ? "gave null"
                : socket.AddressFamily != endPoint.AddressFamily || socket.SocketType != type
                ? $"gave a socket of {socket.AddressFamily}, {socket.SocketType}, which cannot serve {endPoint}"
                : socket.IsBound || socket.Connected ? "gave a socket that is bound or connected already"
                : "";
        }
        catch (Exception e)
        {
            thrown = e;
            why = $"threw {ErrorText.Of(e)}";
        }

        if (why.Length == 0) return socket;
        socket?.Dispose();
        fault = new NetworkException(new NetworkError(0, ErrorCategory.User, $"Cannot prepare a socket for {endPoint}: "
            + $"{option} {why}. See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."), thrown);
        return null;
    }
}
