using System.Text.Json;

namespace Whimbrel.Tool.Top;

/// <summary>Displayed part of a status snapshot. Values that an older server does not send are zero.</summary>
internal sealed record TopSnapshot
{
    internal const int KnownVersion = 1;

    private static readonly JsonSerializerOptions s_names = new() { PropertyNamingPolicy = JsonNamingPolicy.CamelCase };

    public int Whimbrel { get; init; }

    public int Pid { get; init; }

    public long TimeMs { get; init; }

    public TopEngine Engine { get; init; } = new();

    public TopLoop[] Loops { get; init; } = [];

    public TopServer[] Servers { get; init; } = [];

    public int ServersLeftOut { get; init; }

    /// <summary>The last diagnostic events, the newest first.</summary>
    public TopNotice?[]? Notices { get; init; }

    /// <summary>Parses a line. Returns null for other text, and for an unknown version, which is returned
    /// too.</summary>
    internal static TopSnapshot? Read(ReadOnlySpan<byte> line, out int version)
    {
        version = 0;
        try
        {
            // Read first, because another version may have other types in the same places.
            version = JsonSerializer.Deserialize<Head>(line, s_names)?.Whimbrel ?? 0;
            if (version != KnownVersion) return null;
            TopSnapshot? read = JsonSerializer.Deserialize<TopSnapshot>(line, s_names);
            return read is { Engine: not null, Loops: not null, Servers: not null }
                && Array.TrueForAll(read.Loops, static l => l is not null)
                && Array.TrueForAll(read.Servers, static s => s is { Addresses: not null, Slowest: not null })
                ? read
                : null;
        }
        catch (JsonException)
        {
            return null;
        }
    }

    private sealed record Head(int Whimbrel);
}

/// <summary>The engine in a snapshot.</summary>
internal sealed record TopEngine
{
    public string? Kind { get; init; }

    public long MailboxBytes { get; init; }

    public long SendsRefused { get; init; }

    public long BroadcastsRefused { get; init; }

    public long UserExceptions { get; init; }

    /// <summary>Memory that the C allocator of the process has given out; 0 if it does not report it.</summary>
    public long HeapUsedBytes { get; init; }
}

/// <summary>A diagnostic event in a snapshot.</summary>
internal sealed record TopNotice
{
    public DateTimeOffset At { get; init; }

    public string? Message { get; init; }

    /// <summary>Page below docs/symptoms.</summary>
    public string? Page { get; init; }
}
