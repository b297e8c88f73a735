using System.Text.Json.Serialization;

namespace Web_Server;

/// <summary>As it is sent and answered.</summary>
internal sealed record Note(string Text);

// Code that is made when the program is built: no reflection, so it works trimmed as well.
[JsonSerializable(typeof(Note))]
[JsonSerializable(typeof(Note[]))]
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
internal sealed partial class SiteJson : JsonSerializerContext;
