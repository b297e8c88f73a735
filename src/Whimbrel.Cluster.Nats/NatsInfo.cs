using System.Diagnostics.CodeAnalysis;
using System.Text.Json;

namespace Whimbrel.Clusters;

/// <summary>The INFO of a server, as far as a bus needs it.</summary>
/// <param name="MaxPayload">Largest message, in bytes.</param>
/// <param name="NeedsTls">Whether the server requires TLS.</param>
/// <param name="OffersTls">Whether the server supports TLS.</param>
/// <param name="NeedsLogin">Whether the server requires credentials.</param>
/// <param name="HasNonce">Whether the server accepts the signature of an nkey.</param>
/// <param name="IsClustered">Whether the server belongs to a NATS cluster.</param>
internal sealed record NatsInfo(int MaxPayload, bool NeedsTls, bool OffersTls, bool NeedsLogin, bool HasNonce,
    bool IsClustered)
{
    private const int DefaultMaxPayload = 1 << 20;

    internal static bool TryRead(ReadOnlySpan<byte> json, [NotNullWhen(true)] out NatsInfo? info)
    {
        info = null;
        try
        {
            Utf8JsonReader reader = new(json);
            using JsonDocument document = JsonDocument.ParseValue(ref reader);
            JsonElement root = document.RootElement;
            if (root.ValueKind != JsonValueKind.Object) return false;
            bool hasLimit = root.TryGetProperty("max_payload", out JsonElement limit)
                && limit.TryGetInt32(out int given) && given > 0;
            info = new NatsInfo(hasLimit ? limit.GetInt32() : DefaultMaxPayload, Says("tls_required"),
                Says("tls_available"), Says("auth_required"), root.TryGetProperty("nonce", out _),
                root.TryGetProperty("cluster", out _));
            return true;

            bool Says(string name) =>
                root.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.True;
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException)
        {
            return false;
        }
    }
}
