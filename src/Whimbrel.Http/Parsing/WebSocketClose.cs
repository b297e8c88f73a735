using System.Buffers.Binary;
using System.Text;
using System.Text.Unicode;

namespace Whimbrel.Http.Parsing;

/// <summary>The payload of a close frame: nothing, or a status and a reason (RFC 6455, 5.5.1).</summary>
internal static class WebSocketClose
{
    /// <summary>Longest reason, in bytes of UTF-8.</summary>
    internal const int MostReasonBytes = 123;

    /// <summary>Whether a close frame may say it: 1000 to 1014 without those that mean that nothing was said, and 3000 to 4999.</summary>
    internal static bool MaySend(int status) => status is (>= 1000 and <= 1003) or (>= 1007 and <= 1014) or (>= 3000 and <= 4999);

    /// <summary>Judges what a peer sent.</summary>
    internal static WebSocketRule Check(ReadOnlySpan<byte> payload)
    {
        if (payload.IsEmpty) return WebSocketRule.None;
        if (payload.Length == 1) return WebSocketRule.CloseTooShort;
        if (!MaySend(BinaryPrimitives.ReadUInt16BigEndian(payload))) return WebSocketRule.BadCloseStatus;
        return Utf8.IsValid(payload[2..]) ? WebSocketRule.None : WebSocketRule.BadUtf8;
    }

    /// <summary>The status of a payload that was judged.</summary>
    internal static WebSocketStatus StatusOf(ReadOnlySpan<byte> payload) =>
        payload.IsEmpty ? WebSocketStatus.None : (WebSocketStatus)BinaryPrimitives.ReadUInt16BigEndian(payload);

    /// <summary>The reason of a payload that was judged.</summary>
    internal static string ReasonOf(ReadOnlySpan<byte> payload) => payload.Length <= 2 ? "" : Encoding.UTF8.GetString(payload[2..]);

    /// <summary>Writes a payload.</summary>
    /// <param name="target">At least 125 bytes.</param>
    /// <param name="status"><see cref="WebSocketStatus.None"/> for an empty one.</param>
    /// <param name="reason">What does not fit is left out, in whole characters.</param>
    /// <returns>Its length.</returns>
    internal static int Write(Span<byte> target, WebSocketStatus status, ReadOnlySpan<char> reason)
    {
        if (status == WebSocketStatus.None) return 0;
        BinaryPrimitives.WriteUInt16BigEndian(target, (ushort)status);
        Utf8.FromUtf16(reason, target.Slice(2, MostReasonBytes), out _, out int written);
        return 2 + written;
    }
}
