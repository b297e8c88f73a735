using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>What a socket that is being made is for.</summary>
public enum SocketRole
{
    /// <summary>It will be bound and accept connections.</summary>
    Listener,

    /// <summary>It was accepted, and has the options of its listener; on Linux also those that the hook gave that one, if it is a TCP socket.</summary>
    Accepted,

    /// <summary>It will be bound, if there is a local address, and connect.</summary>
    Connected,
}

/// <summary>
/// A socket on its way to the library's use, as <see cref="ConnectionOptions.OnSocketCreated"/> sees it. Lent for the
/// call, which is why it cannot be stored; nor may the descriptor be kept, closed, or made blocking: the library owns it.
/// </summary>
// Safe: the only pointers are to integers on the stack of the call.
public readonly unsafe ref struct NewSocket
{
    private readonly RawSocket _socket;

    internal NewSocket(SocketRole role, EndPoint endPoint, RawSocket socket)
    {
        Role = role;
        EndPoint = endPoint;
        _socket = socket;
    }

    /// <summary>What it is for.</summary>
    public SocketRole Role { get; }

    /// <summary>The address that a listener will be bound to or a dial goes to; of an accepted socket, its listener's address.</summary>
    public EndPoint EndPoint { get; }

    /// <summary>The descriptor (on Windows the SOCKET), for calls of your own. A number and not a safe handle: that would own it, and cost an object for each connection.</summary>
    public nint Descriptor => _socket.Handle is Socket socket ? socket.Handle : _socket.Descriptor;

    /// <summary>setsockopt with an integer, in the system's own numbers. Throws <see cref="NetworkException"/> of category Option when the system refuses.</summary>
    /// <param name="level">As SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">The option's number.</param>
    /// <param name="value">Its value.</param>
    public void SetOption(int level, int name, int value) => SetOption(level, name, new ReadOnlySpan<byte>(&value, sizeof(int)));

    /// <summary>setsockopt, in the system's own numbers. Throws <see cref="NetworkException"/> of category Option when the system refuses.</summary>
    /// <param name="level">As SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">The option's number.</param>
    /// <param name="value">The bytes of its value.</param>
    public void SetOption(int level, int name, ReadOnlySpan<byte> value)
    {
        int error = SocketOptions.SetRaw(_socket, level, name, value);
        if (error != 0) Refused(error, $"Cannot set option {name} of level {level}");
    }

    /// <summary>getsockopt of an integer, in the system's own numbers. Throws <see cref="NetworkException"/> of category Option when the system refuses.</summary>
    /// <param name="level">As SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">The option's number.</param>
    public int GetOption(int level, int name)
    {
        int value = 0;
        GetOption(level, name, new Span<byte>(&value, sizeof(int)));
        return value;
    }

    /// <summary>getsockopt, in the system's own numbers. Gives the number of bytes written. Throws <see cref="NetworkException"/> of category Option when the system refuses.</summary>
    /// <param name="level">As SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">The option's number.</param>
    /// <param name="value">Room for its value.</param>
    public int GetOption(int level, int name, Span<byte> value)
    {
        int length = SocketOptions.GetRaw(_socket, level, name, value);
        if (length < 0) Refused(-length, $"Cannot read option {name} of level {level}");
        return length;
    }

    [DoesNotReturn]
    private static void Refused(int error, string what) =>
        throw new NetworkException(new NetworkError(error, ErrorCategory.Option, $"{what}: {ErrorText.Of(error)} (error {error}). See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."));
}
