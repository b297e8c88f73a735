using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Text;

namespace Whimbrel;

/// <summary>
/// Reads text from unread bytes, for <see cref="Session.OnData"/>: consumes complete lines or complete characters and
/// leaves the rest, which the connection keeps and passes again. It has no state, so a character may arrive in any
/// number of pieces. Invalid bytes become U+FFFD. The maximum line length is the connection's
/// <see cref="ConnectionLimits.UnreadBytes"/>.
/// </summary>
public ref struct Utf8Reader
{
    private readonly ReadOnlySpan<byte> _unread;

    /// <summary>Creates a reader at the start of the bytes.</summary>
    /// <param name="unread">Data passed to <see cref="Session.OnData"/>.</param>
    public Utf8Reader(ReadOnlySpan<byte> unread) => _unread = unread;

    /// <summary>Number of bytes consumed so far: the return value for <see cref="Session.OnData"/>.</summary>
    public int Taken { get; private set; }

    /// <summary>Bytes that are not consumed yet.</summary>
    public readonly ReadOnlySpan<byte> Rest => _unread[Taken..];

    /// <summary>Reads a line that ends in LF or CR LF, which are not part of it.</summary>
    /// <param name="line">The line; null if it is not complete yet, and nothing is consumed.</param>
    public bool TryReadLine([NotNullWhen(true)] out string? line)
    {
        ReadOnlySpan<byte> rest = Rest;
        int end = rest.IndexOf((byte)'\n');
        if (end < 0)
        {
            line = null;
            return false;
        }

        Taken += end + 1;
        line = Encoding.UTF8.GetString(end > 0 && rest[end - 1] == '\r' ? rest[..(end - 1)] : rest[..end]);
        return true;
    }

    /// <summary>
    /// Reads all complete characters, and leaves the beginning of an incomplete one. Empty if there is none.
    /// </summary>
    public string ReadText()
    {
        ReadOnlySpan<byte> rest = Rest;
        bool isCut = Rune.DecodeLastFromUtf8(rest, out _, out int tail) == OperationStatus.NeedMoreData
            && !rest.IsEmpty;
        int count = isCut ? rest.Length - tail : rest.Length;
        Taken += count;
        return Encoding.UTF8.GetString(rest[..count]);
    }
}
