using System.Buffers.Binary;
using System.Text;
using System.Text.Unicode;

namespace Whimbrel.Http.Parsing;

/// <summary>Payload of a close frame: empty, or a status and a reason (RFC 6455, 5.5.1).</summary>
internal static class WebSocketClose
{
    /// <summary>Longest reason, in bytes of UTF-8.</summary>
    internal const int MostReasonBytes = 123;

    /// <summary>Returns whether a close frame may have this status: 1000 to 1014 without the reserved ones, and 3000 to
    /// 4999.</summary>
    internal static bool MaySend(int status) =>
        status is (>= 1000 and <= 1003) or (>= 1007 and <= 1014) or (>= 3000 and <= 4999);

    /// <summary>Checks a received payload.</summary>
    internal static WebSocketRule Check(ReadOnlySpan<byte> payload)
    {
        if (payload.IsEmpty) return WebSocketRule.None;
        if (payload.Length == 1) return WebSocketRule.CloseTooShort;
        if (!MaySend(BinaryPrimitives.ReadUInt16BigEndian(payload))) return WebSocketRule.BadCloseStatus;
        return Utf8.IsValid(payload[2..]) ? WebSocketRule.None : WebSocketRule.BadUtf8;
    }

    /// <summary>Returns the status of a checked payload.</summary>
    internal static WebSocketStatus StatusOf(ReadOnlySpan<byte> payload) =>
        payload.IsEmpty ? WebSocketStatus.None : (WebSocketStatus)BinaryPrimitives.ReadUInt16BigEndian(payload);

    /// <summary>Returns the reason of a checked payload.</summary>
    internal static string ReasonOf(ReadOnlySpan<byte> payload) =>
        payload.Length <= 2 ? "" : Encoding.UTF8.GetString(payload[2..]);

    /// <summary>Writes a payload.</summary>
    /// <param name="target">Buffer of at least 125 bytes.</param>
    /// <param name="status">Status; <see cref="WebSocketStatus.None"/> for an empty payload.</param>
    /// <param name="reason">Reason, cut to the space in whole characters.</param>
    /// <returns>Number of bytes written.</returns>
    internal static int Write(Span<byte> target, WebSocketStatus status, ReadOnlySpan<char> reason)
    {
        if (status == WebSocketStatus.None) return 0;
        BinaryPrimitives.WriteUInt16BigEndian(target, (ushort)status);
        Utf8.FromUtf16(reason, target.Slice(2, MostReasonBytes), out _, out int written);
        return 2 + written;
    }
}
