using System;
using NetCoreServer;

namespace OldPrograms.Proto;

/// Splits received data into messages.
public sealed class MessageReader
{
    private readonly NetCoreServer.Buffer _unread = new NetCoreServer.Buffer();

    public void Clear() { _unread.Clear(); }

    /// Calls back for each whole message. Throws for invalid bytes.
    public void Receive(byte[] buffer, long offset, long size, Action<Message> tell)
    {
        _unread.Append(buffer, offset, size);
        int at = 0;
        while (true)
        {
            ReadOnlySpan<byte> rest = _unread.AsSpan()[at..];
            int length = Message.SizeOf(rest);
            if (length == 0 || rest.Length < length) break;
            at += length;
            tell(Message.Read(rest[..length]));
        }

        // The callback may have cleared it.
        _unread.Remove(0, Math.Min(at, _unread.Size));
    }
}
