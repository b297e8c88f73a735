namespace Whimbrel.Conformance;

/// <summary>A file of a test, deleted at its end.</summary>
public sealed class TestFile : IDisposable
{
    public TestFile(ReadOnlySpan<byte> bytes) => File.WriteAllBytes(Path, bytes);

    /// <summary>A sparse file of zeros, with some bytes at its end.</summary>
    public TestFile(long length, byte[] end)
    {
        ArgumentNullException.ThrowIfNull(end);
        using FileStream stream = File.Create(Path);
        stream.SetLength(length);
        stream.Position = length - end.Length;
        stream.Write(end);
    }

    public string Path { get; } = System.IO.Path.Combine(System.IO.Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}");

    public void CutTo(long length)
    {
        using FileStream stream = new(Path, FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
        stream.SetLength(length);
    }

    public void Dispose() => File.Delete(Path);
}
