namespace Whimbrel.Tool;

/// <summary>Protocol of a connection to the chat, by its first bytes.</summary>
internal static class ChatOpening
{
    private const int MostMethod = 16;
    private const int MostLine = 8 * 1024;

    internal enum Spoken
    {
        /// <summary>The bytes may become a request.</summary>
        Unknown,

        Http,

        Lines,
    }

    /// <summary>Detects a request: METHOD, target and HTTP/1.1. A line such as "GET up" is chat text.</summary>
    internal static Spoken Judge(ReadOnlySpan<byte> unread)
    {
        int end = unread.IndexOf((byte)'\n');
        ReadOnlySpan<byte> line = end < 0 ? unread : unread[..end].TrimEnd((byte)'\r');
        int space = line.IndexOf((byte)' ');
        ReadOnlySpan<byte> method = space < 0 ? line : line[..space];
        bool isMethod = method.Length <= MostMethod && !method.ContainsAnyExceptInRange((byte)'A', (byte)'Z')
            && space != 0;
        if (!isMethod || line.Length > MostLine) return Spoken.Lines;
        if (end < 0) return Spoken.Unknown;
        int last = line.LastIndexOf((byte)' ');
        bool isRequest = space > 0 && last > space + 1 && !line[(space + 1)..last].Contains((byte)' ')
            && line[(last + 1)..].StartsWith("HTTP/"u8);
        return isRequest ? Spoken.Http : Spoken.Lines;
    }
}
