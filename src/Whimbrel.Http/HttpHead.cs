using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Reader of a head, with its bytes.</summary>
internal sealed class HttpHead
{
    private byte[] _bytes;

    internal HttpHead()
    {
        _bytes = new byte[1024];
        Reader = new HttpReader();
    }

    private HttpHead(HttpHead other)
    {
        _bytes = other.Bytes.ToArray();
        Reader = other.Reader.Copy();
    }

    internal HttpReader Reader { get; }

    internal ReadOnlySpan<byte> Bytes => _bytes.AsSpan(0, Reader.HeadLength);

    internal ReadOnlySpan<byte> NameAt(int index)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual((uint)index, (uint)Reader.Count, nameof(index));
        ref readonly HttpFieldPlace place = ref Reader[index];
        return Bytes.Slice(place.NameStart, place.NameLength);
    }

    internal ReadOnlySpan<byte> ValueAt(int index)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual((uint)index, (uint)Reader.Count, nameof(index));
        ref readonly HttpFieldPlace place = ref Reader[index];
        return Bytes.Slice(place.ValueStart, place.ValueLength);
    }

    internal bool TryGet(HttpField field, out ReadOnlySpan<byte> value)
    {
        int index = Reader.IndexOf(field);
        value = index < 0 ? default : ValueAt(index);
        return index >= 0;
    }

    internal bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        for (int index = 0; index < Reader.Count; index++)
        {
            if (!Ascii.EqualsIgnoreCase(NameAt(index), name)) continue;
            value = ValueAt(index);
            return true;
        }

        value = default;
        return false;
    }

    /// <summary>Returns the value of the first field with this name as text, or null.</summary>
    internal string? TextOf(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        Span<byte> bytes = stackalloc byte[64];
        if (name.Length > bytes.Length || !Ascii.IsValid(name)) return null;
        Encoding.ASCII.GetBytes(name, bytes);
        return TryGet(bytes[..name.Length], out ReadOnlySpan<byte> value) ? Encoding.UTF8.GetString(value) : null;
    }

    /// <summary>Returns a copy for long-term use, in a quarter of the memory needed for reading.</summary>
    internal HttpHead Copy() => new(this);

    /// <summary>Copies the complete head, because its block belongs to the connection.</summary>
    internal void Keep(ReadOnlySpan<byte> head)
    {
        if (_bytes.Length < head.Length) _bytes = new byte[Math.Max(head.Length, _bytes.Length * 2)];
        head.CopyTo(_bytes);
        if (Reader.HasFolds) Reader.Unfold(_bytes);
    }
}
