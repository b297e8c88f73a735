using System.Buffers.Binary;

namespace Whimbrel.Relays;

// The TLV fields after the addresses: type, length in two bytes, value.
internal static class Extensions
{
    internal const int HeadLength = 3;

    private const int UniqueIdLimit = 128, ChecksumLength = 4;

    /// <summary>
    /// Takes the next field. Returns false at the end, and when the remaining bytes are no complete field.
    /// </summary>
    internal static bool Next(ref ReadOnlySpan<byte> rest, out byte type, out ReadOnlySpan<byte> value)
    {
        type = 0;
        value = default;
        if (rest.Length < HeadLength) return false;
        int length = BinaryPrimitives.ReadUInt16BigEndian(rest[1..]);
        if (rest.Length - HeadLength < length) return false;
        type = rest[0];
        value = rest.Slice(HeadLength, length);
        rest = rest[(HeadLength + length)..];
        return true;
    }

    /// <summary>
    /// Checks that all fields are complete and that those of the specification have its lengths.
    /// <paramref name="checksumAt"/> is the offset of the checksum, or 0.
    /// </summary>
    internal static bool AreValid(ReadOnlySpan<byte> all, out int checksumAt)
    {
        checksumAt = 0;
        ReadOnlySpan<byte> rest = all;
        while (Next(ref rest, out byte type, out ReadOnlySpan<byte> value))
        {
            if (type == ProxyExtension.Checksum)
            {
                if (value.Length != ChecksumLength || checksumAt != 0) return false;
                checksumAt = all.Length - rest.Length - ChecksumLength;
            }
            else if (type == ProxyExtension.UniqueId && value.Length > UniqueIdLimit)
            {
                return false;
            }
            else if (type == ProxyExtension.Tls && !IsValidTls(value))
            {
                return false;
            }
        }

        return rest.IsEmpty;
    }

    private static bool IsValidTls(ReadOnlySpan<byte> value)
    {
        if (value.Length < ProxyTls.HeadLength) return false;
        ReadOnlySpan<byte> rest = value[ProxyTls.HeadLength..];
        while (Next(ref rest, out _, out _))
        {
            // Only the lengths are checked.
        }

        return rest.IsEmpty;
    }
}
