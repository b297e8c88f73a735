using System.Text;

namespace Whimbrel.Http;

/// <summary>A part of a form with files: see <see cref="HttpRequest.ReadPartsAsync"/>. Its body can be read until the next part is asked for.</summary>
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

    /// <summary>The name of the field.</summary>
    public string Name { get; }

    /// <summary>
    /// The last segment of the file name that the client says, without the directories that may stand before it; empty when nothing of it is left; null for a field
    /// that is no file. Chosen by whoever sends: to show, and not to open. It may be any name, also <c>.bashrc</c> or <c>con</c>: keep files under names of your own.
    /// </summary>
    public string? FileName { get; }

    /// <summary>Its Content-Type, as the client says; null when it says none.</summary>
    public string? ContentType { get; }

    /// <summary>Its bytes, as they come. One read at a time.</summary>
    public Stream Body { get; }

    /// <summary>Reads its bytes into memory as UTF-8 text.</summary>
    /// <param name="limitBytes">Most bytes: 0 and more; default 64 KiB.</param>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpProtocolException">It is larger (413), or broken.</exception>
    public async ValueTask<string> ReadTextAsync(int limitBytes = TextLimit, CancellationToken cancellationToken = default)
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
