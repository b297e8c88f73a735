using System.Text.Json;

namespace Whimbrel.Dashboard;

/// <summary>The kinds of views. The names are those of the messages, in lower case.</summary>
internal enum ViewKind
{
    Overview,
    Connections,
    Connection,
    Groups,
    Ended,
    Notices,
}

/// <summary>Order of the connections.</summary>
internal enum ViewSort
{
    /// <summary>Bytes in the send queue.</summary>
    Queue,

    /// <summary>Time since the connection was established.</summary>
    Age,

    /// <summary>Bytes received and sent.</summary>
    Bytes,

    /// <summary>Bytes received and sent in the last second.</summary>
    Rate,

    /// <summary>Time that the send queue needs at its current rate.</summary>
    Slowest,
}

/// <summary>What an open page shows, as it has requested it. Immutable.</summary>
internal sealed record View
{
    /// <summary>Largest message of a page.</summary>
    internal const int MostBytes = 4_096;

    /// <summary>Rows of a page of a table.</summary>
    internal const int MostRows = 100;

    private const int MostPage = 1_000_000;
    private const int MostText = 300;

    internal ViewKind Kind { get; init; }

    internal ViewSort Sort { get; init; }

    internal bool IsAscending { get; init; }

    /// <summary>Number of the page of the table, from 0.</summary>
    internal int Page { get; init; }

    internal int Rows { get; init; } = 50;

    /// <summary>Text that a name, a type or an address contains; empty for all.</summary>
    internal string Filter { get; init; } = "";

    /// <summary>Only members of this group are shown; null for all connections.</summary>
    internal string? Group { get; init; }

    /// <summary>Number of a server (<see cref="Whimbrel.Server.Host.Id"/>), or 0 for all.</summary>
    internal long Server { get; init; }

    /// <summary>Node of a cluster that <see cref="Group"/> belongs to; null for a group of a server.</summary>
    internal string? Node { get; init; }

    /// <summary>Id of the connection.</summary>
    internal long Id { get; init; }

    /// <summary>
    /// Parses a message of a page. Throws <see cref="JsonException"/> or <see cref="FormatException"/> for another
    /// text.
    /// </summary>
    internal static View Parse(ReadOnlySpan<byte> utf8)
    {
        Utf8JsonReader reader = new(utf8);
        using JsonDocument document = JsonDocument.ParseValue(ref reader);
        JsonElement root = document.RootElement;
        if (root.ValueKind != JsonValueKind.Object) throw new FormatException("a view is an object");
        return new View
        {
            Kind = Name<ViewKind>(root, "view"),
            Sort = Name<ViewSort>(root, "sort"),
            IsAscending = root.TryGetProperty("ascending", out JsonElement up) && up.ValueKind == JsonValueKind.True,
            Page = (int?)Number(root, "page", 0, MostPage) ?? 0,
            Rows = (int?)Number(root, "rows", 1, MostRows) ?? 50,
            Filter = Text(root, "filter") ?? "",
            Group = Text(root, "group"),
            Node = Text(root, "node"),
            Server = Number(root, "server", 0, long.MaxValue) ?? 0,
            Id = Number(root, "id", 0, long.MaxValue) ?? 0,
        };
    }

    private static T Name<T>(JsonElement root, string name)
        where T : struct, Enum
    {
        if (Text(root, name) is not { } text) return default;
        if (text.Length > 0 && char.IsAsciiLetter(text[0]) && Enum.TryParse(text, ignoreCase: true, out T value)
            && Enum.IsDefined(value))
            return value;
        throw new FormatException($"there is no such {name}");
    }

    private static string? Text(JsonElement root, string name)
    {
        if (!root.TryGetProperty(name, out JsonElement value) || value.ValueKind == JsonValueKind.Null) return null;
        if (value.ValueKind == JsonValueKind.String && value.GetString() is { Length: <= MostText } text) return text;
        throw new FormatException($"{name} is no text of at most {MostText} characters");
    }

    private static long? Number(JsonElement root, string name, long least, long most)
    {
        if (!root.TryGetProperty(name, out JsonElement value) || value.ValueKind == JsonValueKind.Null) return null;
        if (value.ValueKind == JsonValueKind.Number && value.TryGetInt64(out long number) && number >= least
            && number <= most)
            return number;
        throw new FormatException($"{name} is no number from {least} to {most}");
    }
}
