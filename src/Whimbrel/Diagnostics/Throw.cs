using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Diagnostics;

/// <summary>Throw helpers, separate from the methods that run for every message.</summary>
internal static class Throw
{
    [DoesNotReturn]
    internal static void NotOnLoop(string member) =>
        throw new InvalidOperationException($"{member} belongs to the session's own thread: call it inside a callback, "
            + $"or Post it to the session's loop.");

    internal static InvalidOperationException NoConnection() =>
        new("The session has no connection: it is not connected yet, or its connection has ended. Call this from "
            + "OnConnected on, and look at IsConnected first where the end may have come.");

    [DoesNotReturn]
    internal static void State(string message) => throw new InvalidOperationException(message);

    [DoesNotReturn]
    internal static void OutOfRange(string name, object value, string range) =>
        throw new ArgumentOutOfRangeException(name, value, $"{name} must be {range}.");

    /// <summary>
    /// Throws for a message that can never fit: neither the peer nor a wait can change that.
    /// </summary>
    /// <param name="length">Length of the message in bytes.</param>
    /// <param name="limit">Limit of the send queue in bytes.</param>
    /// <param name="isFramed">Whether plain bytes would corrupt the protocol, so that SendAsync is no cure.</param>
    [DoesNotReturn]
    internal static void TooLarge(long length, long limit, bool isFramed) =>
        throw new ArgumentException($"A message of {length:n0} bytes is larger than the send queue of its connection "
            + $"may ever be (SendLimitBytes is {limit:n0}). Nothing of it was queued, and the connection continues. "
            + (isFramed
                ? "Await SendTextAsync or SendBinaryAsync of the WebSocketSession, which send "
                : "Await SendAsync, which sends ")
            + $"a message of any length in parts; or set Limits.AllowLargeMessages, which takes one when nothing "
            + $"else is pending; or raise Limits.SendBytes.");

    [DoesNotReturn]
    internal static void Disposed(string name) => throw new ObjectDisposedException(name);

    [DoesNotReturn]
    internal static void BlocksLoop(string member) =>
        throw new InvalidOperationException($"{member} blocks, and this is a loop's thread: everything else on it "
            + $"would stand still. Await {member}Async, or call it from another thread.");

    [DoesNotReturn]
    internal static void WouldBlockLoop() =>
        throw new InvalidOperationException(
            "Blocking on this operation inside a callback would stop its own loop. Await it instead.");
}
