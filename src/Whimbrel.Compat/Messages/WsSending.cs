using System.Buffers;
using System.Buffers.Binary;
using System.Text;
using NetCoreServer;
using Whimbrel.Http;
using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat;

/// <summary>Sending, and blocking receives, of sessions and clients with a WebSocket.</summary>
/// <remarks>
/// A frame is one send, so frames of several threads never mix. Queued frames are composed under the WebSocket's lock,
/// so nothing follows a close. A blocking send holds no lock while it waits.
/// </remarks>
internal static class WsSending
{
    private const int MostReasonBytes = 123;
    private const int LeastInPieces = 4096;

    internal static bool Queue(WebSocket socket, IWsOwner owner, WebSocketPart part, ReadOnlySpan<byte> payload)
    {
        lock (socket.SendGate)
        {
            if (!socket.IsOpen || socket.IsClosing) return false;
            if (payload.Length >= LeastInPieces && !socket.IsClient
                && QueueInPieces(owner, part, payload) is { } isTaken)
                return isTaken;
            socket.Compose(part, payload);
            return owner.Queue(socket.Frame);
        }
    }

    // A server does not mask, so a large payload is not copied first.
    private static bool? QueueInPieces(IWsOwner owner, WebSocketPart part, ReadOnlySpan<byte> payload)
    {
        if (part is not (WebSocketPart.Text or WebSocketPart.Binary)) return null;
        Span<byte> head = stackalloc byte[WebSocketFrames.MostHeadBytes];
        return owner.Queue(head[..WebSocketFrames.WriteHead(head, part, payload.Length)], payload);
    }

    internal static long Send(WebSocket socket, IWsOwner owner, WebSocketPart part, ReadOnlySpan<byte> payload)
    {
        if (!socket.IsOpen || socket.IsClosing) return 0;
        using PooledFrame frame = new(part, payload, socket.IsClient);
        return owner.SendNow(frame.Span);
    }

    internal static bool QueueClose(WebSocket socket, IWsOwner owner, int status, ReadOnlySpan<byte> reason)
    {
        Span<byte> payload = stackalloc byte[2 + MostReasonBytes];
        payload = WriteClose(payload, status, reason);
        lock (socket.SendGate)
        {
            if (!socket.IsOpen || socket.IsClosing) return false;
            socket.Compose(WebSocketPart.Close, payload);
            return owner.Queue(socket.Frame);
        }
    }

    internal static long SendClose(WebSocket socket, IWsOwner owner, int status, ReadOnlySpan<byte> reason)
    {
        Span<byte> payload = stackalloc byte[2 + MostReasonBytes];
        payload = WriteClose(payload, status, reason);
        using PooledFrame frame = new(WebSocketPart.Close, payload, socket.IsClient);
        return socket.TryBeginClose() ? owner.SendNow(frame.Span) : 0;
    }

    /// <summary>Receives until the next message is complete. Other events are reported as usual.</summary>
    internal static Buffer Receive(WebSocket socket, IWsOwner owner)
    {
        Buffer message = new();
        byte[] bytes = new byte[4096];
        socket.Want(message);
        while (!socket.HasWanted)
        {
            // Reads no byte of the next frame, which belongs to the next call. During the handshake it reads single
            // bytes, because its end is unknown.
            long required = socket.IsOpen ? Math.Min(socket.RequiredReceiveFrameSize(), bytes.Length) : 1;
            if (owner.ReceiveNow(bytes, 0, required) <= 0) break;
        }

        socket.Want(null);
        return message;
    }

    /// <summary>
    /// Writes the payload of a close frame. Status 0 without a reason is an empty payload. Programs of the original
    /// library close with numbers that RFC 6455 does not allow, so such a status is sent as 1000. The reason ends
    /// before its first byte that is not UTF-8, or after 123 bytes.
    /// </summary>
    internal static Span<byte> WriteClose(Span<byte> target, int status, ReadOnlySpan<byte> reason)
    {
        if (status == 0 && reason.IsEmpty) return default;
        BinaryPrimitives.WriteUInt16BigEndian(target,
            (ushort)(IsAllowed(status) ? status : (int)WebSocketStatus.Normal));
        reason = reason[..WholeCharacters(reason)];
        reason.CopyTo(target[2..]);
        return target[..(2 + reason.Length)];
    }

    private static bool IsAllowed(int status) =>
        status is >= 1000 and <= 1003 or >= 1007 and <= 1014 or >= 3000 and <= 4999;

    private static int WholeCharacters(ReadOnlySpan<byte> text)
    {
        int whole = 0;
        while (whole < text.Length && Rune.DecodeFromUtf8(text[whole..], out _, out int length) == OperationStatus.Done
            && whole + length <= MostReasonBytes)
            whole += length;
        return whole;
    }
}
