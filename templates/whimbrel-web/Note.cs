using System.Text.Json.Serialization;

namespace Web_Server;

/// <summary>Format of requests and responses.</summary>
internal sealed record Note(string Text);

// Source-generated serialization: without reflection, so it also works trimmed.
[JsonSerializable(typeof(Note))]
[JsonSerializable(typeof(Note[]))]
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
internal sealed partial class SiteJson : JsonSerializerContext;
