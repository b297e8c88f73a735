using System.Text;

namespace Whimbrel.Datagrams;

/// <summary>
/// Name of a Unix datagram socket as in the kernel: a path without its terminating zero, or an abstract name that
/// begins with one. Immutable; compared by its bytes. Any thread.
/// </summary>
internal sealed class UnixName : IEquatable<UnixName>
{
    private readonly byte[] _bytes;
    private readonly int _hash;
    private string? _text;

    internal UnixName(ReadOnlySpan<byte> bytes)
    {
        _bytes = bytes.ToArray();
        _hash = HashOf(bytes);
    }

    internal UnixName(string text)
    {
        _bytes = Encoding.UTF8.GetBytes(text);
        if (text.StartsWith('@')) _bytes[0] = 0;
        _hash = HashOf(_bytes);
    }

    internal ReadOnlySpan<byte> Bytes => _bytes;

    /// <summary>The name as text, with '@' for the zero byte of an abstract name.</summary>
    internal string Text => _text ??= (_bytes.Length > 0 && _bytes[0] == 0 ? "@" : "")
        + Encoding.UTF8.GetString(_bytes.AsSpan(_bytes.Length > 0 && _bytes[0] == 0 ? 1 : 0));

    /// <summary>The form for .NET's end point: its abstract names begin with the zero byte.</summary>
    internal string EndPointText => Text.StartsWith('@') ? "\0" + Text[1..] : Text;

    internal static int HashOf(ReadOnlySpan<byte> bytes)
    {
        HashCode hash = default;
        hash.AddBytes(bytes);
        return hash.ToHashCode();
    }

    public bool Equals(UnixName? other) =>
        other is not null && _hash == other._hash && _bytes.AsSpan().SequenceEqual(other._bytes);

    public override bool Equals(object? obj) => Equals(obj as UnixName);

    public override int GetHashCode() => _hash;
}
