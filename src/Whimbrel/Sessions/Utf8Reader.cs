using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Text;

namespace Whimbrel;

/// <summary>
/// Text out of unread bytes, for <see cref="Session.OnData"/>: takes whole lines or whole characters and leaves the rest,
/// which the connection keeps and offers again. It has no state of its own, so a character may come in as many pieces as it
/// likes. Invalid bytes become U+FFFD. How long a line may be is the connection's
/// <see cref="ConnectionOptions.UnreadLimitBytes"/>.
/// </summary>
public ref struct Utf8Reader
{
    private readonly ReadOnlySpan<byte> _unread;

    /// <summary>Reads from the start of the bytes.</summary>
    /// <param name="unread">What <see cref="Session.OnData"/> was given.</param>
    public Utf8Reader(ReadOnlySpan<byte> unread) => _unread = unread;

    /// <summary>How many bytes were taken so far: what <see cref="Session.OnData"/> returns.</summary>
    public int Taken { get; private set; }

    /// <summary>What was not taken yet.</summary>
    public readonly ReadOnlySpan<byte> Rest => _unread[Taken..];

    /// <summary>Takes a line that ends in LF or CR LF, which are no part of it.</summary>
    /// <param name="line">The line; null when it is not complete yet, and then nothing is taken.</param>
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

    /// <summary>Takes all characters that are complete, and leaves the beginning of one that is not. Empty when there is none.</summary>
    public string ReadText()
    {
        ReadOnlySpan<byte> rest = Rest;
        bool isCut = Rune.DecodeLastFromUtf8(rest, out _, out int tail) == OperationStatus.NeedMoreData && !rest.IsEmpty;
        int count = isCut ? rest.Length - tail : rest.Length;
        Taken += count;
        return Encoding.UTF8.GetString(rest[..count]);
    }
}
