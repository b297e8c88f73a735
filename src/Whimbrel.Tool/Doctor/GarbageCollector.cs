using System.Globalization;
using System.Text.Json;

namespace Whimbrel.Tool.Doctor;

/// <summary>Garbage collector settings of a program: from the environment, its .runtimeconfig.json, or the defaults of
/// .NET.</summary>
/// <param name="IsServer">True for server GC (a heap per CPU).</param>
/// <param name="IsConcurrent">True for concurrent GC.</param>
/// <param name="IsAdaptive">True if server GC adapts the number of heaps (DATAS).</param>
/// <param name="Program">Program with these settings; empty for a program without settings.</param>
internal readonly record struct GarbageCollector(bool IsServer, bool IsConcurrent, bool IsAdaptive, string Program)
{
    /// <summary>Reads the settings. Returns null for invalid JSON.</summary>
    /// <param name="environment">Returns an environment variable, or null.</param>
    /// <param name="program">Name of the program, for the finding.</param>
    /// <param name="runtimeConfig">Contents of its .runtimeconfig.json, or null for a program without settings.</param>
    internal static GarbageCollector? Of(Func<string, string?> environment, string program, string? runtimeConfig)
    {
        Dictionary<string, string> settings = [];
        if (runtimeConfig is not null && !TryReadSettings(runtimeConfig, settings)) return null;
        bool server = Flag("DOTNET_gcServer", "System.GC.Server", otherwise: false);
        bool concurrent = Flag("DOTNET_gcConcurrent", "System.GC.Concurrent", otherwise: true);
        bool adaptive = server
            && Flag("DOTNET_GCDynamicAdaptationMode", "System.GC.DynamicAdaptationMode", otherwise: true);
        return new GarbageCollector(server, concurrent, adaptive, program);

        bool Flag(string variable, string setting, bool otherwise)
        {
            // The environment has hexadecimal numbers and takes precedence.
            if (environment(variable) is { Length: > 0 } text
                && long.TryParse(text, NumberStyles.HexNumber, CultureInfo.InvariantCulture, out long number))
                return number != 0;
            return settings.TryGetValue(setting, out string? value) ? value is not ("false" or "0") : otherwise;
        }
    }

    internal Finding ToFinding()
    {
        string kind =
            $"{(IsServer ? IsAdaptive ? "server, adaptive (DATAS)" : "server, not adaptive" : "workstation")}, "
            + $"{(IsConcurrent ? "concurrent" : "not concurrent")}";
        string whose = Program.Length == 0
            ? $"{kind}: default for programs without settings; check yours with --app PROGRAM.dll"
            : $"{kind}: {Program}";
        return IsServer && IsAdaptive
            ? Finding.Advice("gc",
                $"{whose}; adaptation keeps the heap small by more collections, and each stops the loops",
                "DOTNET_GCDynamicAdaptationMode=0, or "
                + "<GarbageCollectionAdaptationMode>0</GarbageCollectionAdaptationMode> in the project, where "
                + "memory allows")
            : Finding.Ok("gc", whose);
    }

    private static bool TryReadSettings(string runtimeConfig, Dictionary<string, string> settings)
    {
        try
        {
            using JsonDocument document = JsonDocument.Parse(runtimeConfig,
                new JsonDocumentOptions { CommentHandling = JsonCommentHandling.Skip, AllowTrailingCommas = true });
            if (document.RootElement.ValueKind != JsonValueKind.Object
                || !document.RootElement.TryGetProperty("runtimeOptions", out JsonElement options)
                || options.ValueKind != JsonValueKind.Object)
                return false;
            if (!options.TryGetProperty("configProperties", out JsonElement properties)) return true;
            if (properties.ValueKind != JsonValueKind.Object) return false;
            foreach (JsonProperty property in properties.EnumerateObject())
                settings[property.Name] = property.Value.ToString().ToLowerInvariant();
            return true;
        }
        catch (JsonException)
        {
            return false;
        }
    }
}
