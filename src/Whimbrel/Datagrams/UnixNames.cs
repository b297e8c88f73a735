using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Datagrams;

/// <summary>
/// One object for each Unix name that sent datagrams, so that a known sender costs no allocation. Used by one loop.
/// Bounded: cleared at its limit.
/// </summary>
internal sealed class UnixNames
{
    private const int MaxNames = 4096;

    private readonly Dictionary<UnixName, UnixName> _names = new(new ByBytes());

    internal UnixName Intern(ReadOnlySpan<byte> bytes)
    {
        if (_names.GetAlternateLookup<ReadOnlySpan<byte>>().TryGetValue(bytes, out UnixName? known)) return known;
        if (_names.Count >= MaxNames) _names.Clear();
        UnixName name = new(bytes);
        _names.Add(name, name);
        return name;
    }

    private sealed class ByBytes : IEqualityComparer<UnixName>, IAlternateEqualityComparer<ReadOnlySpan<byte>, UnixName>
    {
        public bool Equals(UnixName? x, UnixName? y) => x is null ? y is null : x.Equals(y);

        public int GetHashCode([DisallowNull] UnixName obj) => obj.GetHashCode();

        public bool Equals(ReadOnlySpan<byte> alternate, UnixName other) => alternate.SequenceEqual(other.Bytes);

        public int GetHashCode(ReadOnlySpan<byte> alternate) => UnixName.HashOf(alternate);

        public UnixName Create(ReadOnlySpan<byte> alternate) => new(alternate);
    }
}
