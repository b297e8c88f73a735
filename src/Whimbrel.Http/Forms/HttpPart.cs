using System.Text;

namespace Whimbrel.Http;

/// <summary>Part of a form with files: see <see cref="HttpRequest.ReadPartsAsync"/>. Its body can be read until the
/// next part is requested.</summary>
public sealed class HttpPart
{
    private const int TextLimit = 64 * 1024;

    private readonly HttpPartReader _reader;

    internal HttpPart(HttpPartReader reader, string name, string? fileName, string? contentType)
    {
        _reader = reader;
        Name = name;
        FileName = fileName;
        ContentType = contentType;
        Body = new HttpPartStream(reader, this);
    }

    /// <summary>Name of the field.</summary>
    public string Name { get; }

    /// <summary>
    /// Last segment of the file name sent by the client, without directories; empty if none is left; null for a field
    /// without a file. Do not open a file by it, because the client can choose any name, such as <c>.bashrc</c> or
    /// <c>con</c>. Store files under names of your own.
    /// </summary>
    public string? FileName { get; }

    /// <summary>Content-Type sent by the client; null for none.</summary>
    public string? ContentType { get; }

    /// <summary>Body, as it arrives. One read at a time.</summary>
    public Stream Body { get; }

    /// <summary>Reads the body into memory as UTF-8 text.</summary>
    /// <param name="limitBytes">Largest length in bytes: 0 and more; default 64 KiB.</param>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpProtocolException">The body is larger (413), or malformed.</exception>
    public async ValueTask<string> ReadTextAsync(int limitBytes = TextLimit,
        CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(limitBytes);
        byte[] bytes = new byte[(int)Math.Min(256, (long)limitBytes + 1)];
        int length = 0;
        while (true)
        {
            int count = await Body.ReadAsync(bytes.AsMemory(length), cancellationToken).ConfigureAwait(false);
            if (count == 0) return Encoding.UTF8.GetString(bytes, 0, length);
            length += count;
            if (length > limitBytes) throw _reader.Mistake(413, "A field of the form is too large");
            if (length == bytes.Length) Array.Resize(ref bytes, (int)Math.Min(length * 4L, (long)limitBytes + 1));
        }
    }
}
