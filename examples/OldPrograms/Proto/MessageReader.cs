using System;
using NetCoreServer;

namespace OldPrograms.Proto;

/// Cuts what comes into messages.
public sealed class MessageReader
{
    private readonly NetCoreServer.Buffer _unread = new NetCoreServer.Buffer();

    public void Clear() { _unread.Clear(); }

    /// Tells each whole message. Throws for what is none.
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

        // Who was told may have cleared it.
        _unread.Remove(0, Math.Min(at, _unread.Size));
    }
}
