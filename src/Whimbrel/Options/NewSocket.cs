using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Purpose of a new socket.</summary>
public enum SocketRole
{
    /// <summary>The socket will be bound and accept connections.</summary>
    Listener,

    /// <summary>
    /// The socket was accepted and has the options of its listener. A TCP socket on Linux also inherits those that the
    /// callback set on the listener.
    /// </summary>
    Accepted,

    /// <summary>The socket will connect, after a bind if there is a local address.</summary>
    Connected,
}

/// <summary>
/// A new socket, as passed to <see cref="ConnectionSocketOptions.OnCreated"/>. Valid during the call only, so it cannot
/// be stored. Do not keep or close the descriptor or make it blocking: the library owns it.
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

    /// <summary>Purpose of the socket.</summary>
    public SocketRole Role { get; }

    /// <summary>
    /// Address that a listener will be bound to, or that a client connects to; for an accepted socket, the address of
    /// its listener.
    /// </summary>
    public EndPoint EndPoint { get; }

    /// <summary>
    /// The descriptor (on Windows the SOCKET), for direct system calls. A number instead of a safe handle, which would
    /// own the descriptor and cost an object for each connection.
    /// </summary>
    public nint Descriptor => _socket.Handle is Socket socket ? socket.Handle : _socket.Descriptor;

    /// <summary>
    /// Calls setsockopt with an integer and the system's own constants. Throws <see cref="NetworkException"/> of
    /// category Option if the system rejects it.
    /// </summary>
    /// <param name="level">Level, such as SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">Number of the option.</param>
    /// <param name="value">Value of the option.</param>
    public void SetOption(int level, int name, int value) =>
        SetOption(level, name, new ReadOnlySpan<byte>(&value, sizeof(int)));

    /// <summary>
    /// Calls setsockopt with the system's own constants. Throws <see cref="NetworkException"/> of category Option if
    /// the system rejects it.
    /// </summary>
    /// <param name="level">Level, such as SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">Number of the option.</param>
    /// <param name="value">Bytes of the value.</param>
    public void SetOption(int level, int name, ReadOnlySpan<byte> value)
    {
        int error = SocketOptions.SetRaw(_socket, level, name, value);
        if (error != 0) Refused(error, $"Cannot set option {name} of level {level}");
    }

    /// <summary>
    /// Calls getsockopt for an integer with the system's own constants. Throws <see cref="NetworkException"/> of
    /// category Option if the system rejects it.
    /// </summary>
    /// <param name="level">Level, such as SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">Number of the option.</param>
    public int GetOption(int level, int name)
    {
        int value = 0;
        GetOption(level, name, new Span<byte>(&value, sizeof(int)));
        return value;
    }

    /// <summary>
    /// Calls getsockopt with the system's own constants, and returns the number of bytes written. Throws
    /// <see cref="NetworkException"/> of category Option if the system rejects it.
    /// </summary>
    /// <param name="level">Level, such as SOL_SOCKET or IPPROTO_TCP.</param>
    /// <param name="name">Number of the option.</param>
    /// <param name="value">Buffer for the value.</param>
    public int GetOption(int level, int name, Span<byte> value)
    {
        int length = SocketOptions.GetRaw(_socket, level, name, value);
        if (length < 0) Refused(-length, $"Cannot read option {name} of level {level}");
        return length;
    }

    [DoesNotReturn]
    private static void Refused(int error, string what) =>
        throw new NetworkException(new NetworkError(error, ErrorCategory.Option, $"{what}: {ErrorText.Of(error)} "
            + $"(error {error}). See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."));
}
