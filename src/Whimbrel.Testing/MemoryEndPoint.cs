using System.Net;

namespace Whimbrel.Testing;

/// <summary>A named end point in the memory network, for servers and clients without an IP address.</summary>
/// <param name="name">Any text, compared ordinally.</param>
public sealed class MemoryEndPoint(string name) : EndPoint, IEquatable<MemoryEndPoint>
{
    /// <summary>The name.</summary>
    public string Name { get; } = name ?? throw new ArgumentNullException(nameof(name));

    /// <inheritdoc/>
    public bool Equals(MemoryEndPoint? other) => other is not null && other.Name == Name;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => Equals(obj as MemoryEndPoint);

    /// <inheritdoc/>
    public override int GetHashCode() => Name.GetHashCode(StringComparison.Ordinal);

    /// <inheritdoc/>
    public override string ToString() => $"memory://{Name}";
}
