using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// The Socket object that user code has of a resident: over a duplicate of its descriptor, so that what is done with it late, or
/// twice, meets nobody else's. Made when it is asked for, or by the user before the rest (CreateSocket); disposed right before the
/// resident's own descriptor is closed. Any thread asks: its owner guards it by the loop's gate.
/// </summary>
internal struct SocketShare
{
    private RawSocket _source;
    private Socket? _object;
    private bool _isOpen;

    /// <summary>There was an object: user code may have made duplicates of its own.</summary>
    internal bool WasUsed { get; private set; }

    /// <summary>What <see cref="Begin"/> was given, until <see cref="End"/>.</summary>
    internal readonly RawSocket Source => _source;

    internal void Begin(RawSocket source)
    {
        _source = source;
        _isOpen = true;
        _object = source.Made;
        WasUsed = source.Made is not null;
    }

    /// <summary>Nobody can ask any more; what there is is disposed by the caller. Not what the engine itself uses: it does that.</summary>
    internal Socket? End()
    {
        Socket? last = ReferenceEquals(_object, _source.Handle) ? null : _object;
        _object = null;
        _source = default;
        _isOpen = false;
        return last;
    }

    internal void Forget() => this = default;

    /// <summary>The object, made now if there is none. Null when the resident has no socket, or none any more.</summary>
    internal Socket? Get()
    {
        if (!_isOpen || _source.Handle is not (null or Socket)) return null;
        WasUsed = true;
        return _object ??= Duplicate(_source);
    }

    // ------------------------------------------------------------------ objects

    /// <summary>Another object with a descriptor of its own. Elsewhere than on Linux it borrows the handle, and is disposed before that is closed.</summary>
    internal static Socket Duplicate(RawSocket source)
    {
        if (!KernelProbe.IsLinux) return new Socket(new SafeSocketHandle(((Socket)source.Handle!).Handle, ownsHandle: false));
        int fd = Syscall.Duplicate(source.Number);
        if (fd < 0) throw new NetworkException(new NetworkError(-fd, ErrorCategory.Limit, $"Cannot duplicate the descriptor of a socket: {ErrorText.Of(-fd)} (error {-fd})."));
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

    /// <summary>What the user's CreateSocket gives for the address, when it can be used; else null and why.</summary>
    internal static Socket? Create(Func<EndPoint, Socket> create, EndPoint endPoint, SocketType type, out NetworkException? fault)
    {
        fault = null;
        Exception? thrown = null;
        string why;
        Socket? socket = null;
        try
        {
            socket = create(endPoint);
            why = socket is null ? "gave null"
                : socket.AddressFamily != endPoint.AddressFamily || socket.SocketType != type ? $"gave a socket of {socket.AddressFamily}, {socket.SocketType}, which cannot serve {endPoint}"
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
        fault = new NetworkException(new NetworkError(0, ErrorCategory.User, $"Cannot prepare a socket for {endPoint}: CreateSocket {why}. See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."), thrown);
        return null;
    }
}
