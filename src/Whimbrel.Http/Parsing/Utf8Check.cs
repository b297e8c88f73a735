using System.Buffers;
using System.Diagnostics;
using System.Text;
using System.Text.Unicode;

namespace Whimbrel.Http.Parsing;

/// <summary>Validates UTF-8 that arrives in pieces, at the first invalid byte. It needs no reset, because complete text
/// leaves no state.</summary>
internal struct Utf8Check
{
    private const int Longest = 4; // bytes of a character

    // Bytes of an incomplete character, the first of them lowest.
    private uint _begun;
    private int _count;

    /// <summary>Whether the last character is complete.</summary>
    internal readonly bool IsComplete => _count == 0;

    /// <summary>Adds bytes. Returns false if the text is invalid, whatever follows.</summary>
    internal bool Add(ReadOnlySpan<byte> data)
    {
        while (_count > 0 && !data.IsEmpty)
        {
            if (!AddOne(data[0])) return false;
            data = data[1..];
        }

        if (Utf8.IsValid(data)) return true;
        // The last character may be cut. It begins in the last three bytes, at one that is no continuation byte.
        int begin = data.Length - 1;
        int first = Math.Max(0, data.Length - (Longest - 1));
        while (begin > first && (data[begin] & 0xC0) == 0x80) begin--;
        if (Rune.DecodeFromUtf8(data[begin..], out _, out _) != OperationStatus.NeedMoreData
            || !Utf8.IsValid(data[..begin]))
            return false;
        foreach (byte each in data[begin..]) _begun |= (uint)each << (8 * _count++);
        return true;
    }

    private bool AddOne(byte next)
    {
        _begun |= (uint)next << (8 * _count++);
        Debug.Assert(_count <= Longest, "four bytes are a character or none");
        Span<byte> bytes = stackalloc byte[Longest];
        for (int i = 0; i < _count; i++) bytes[i] = (byte)(_begun >> (8 * i));
        OperationStatus status = Rune.DecodeFromUtf8(bytes[.._count], out _, out _);
        if (status == OperationStatus.NeedMoreData) return true;
        _begun = 0;
        _count = 0;
        return status == OperationStatus.Done;
    }
}
