using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;

namespace Whimbrel.Acme;

// Messages of RFC 8555 and RFC 9773 as JSON. Every field may be missing: AcmeClient checks those that it needs.
#pragma warning disable CA1812 // created by the serializer

internal sealed record DirectoryJson(string? NewNonce, string? NewAccount, string? NewOrder, string? RenewalInfo,
    DirectoryMetaJson? Meta);

internal sealed record DirectoryMetaJson(string? TermsOfService, bool? ExternalAccountRequired);

internal sealed record AccountRequestJson(bool TermsOfServiceAgreed, string[]? Contact,
    JwsJson? ExternalAccountBinding);

internal sealed record IdentifierJson(string? Type, string? Value);

internal sealed record OrderRequestJson(IdentifierJson[] Identifiers, string? Replaces);

internal sealed record OrderJson(string? Status, string[]? Authorizations, string? Finalize, string? Certificate,
    ProblemJson? Error);

internal sealed record AuthorizationJson(string? Status, IdentifierJson? Identifier, ChallengeJson[]? Challenges);

internal sealed record ChallengeJson(string? Type, string? Url, string? Token, string? Status, ProblemJson? Error);

internal sealed record ProblemJson(string? Type, string? Detail, ProblemJson[]? Subproblems,
    IdentifierJson? Identifier);

internal sealed record FinalizeJson(string Csr);

internal sealed record RenewalInfoJson(WindowJson? SuggestedWindow);

internal sealed record WindowJson(DateTimeOffset? Start, DateTimeOffset? End);

/// <summary>Public key. The order of the members is that of a thumbprint (RFC 7638).</summary>
internal sealed record JwkJson(string Crv, string Kty, string X, string Y);

internal sealed record JwsHeadJson(string Alg, string? Nonce, string Url, JwkJson? Jwk, string? Kid);

internal sealed record JwsJson(string Protected, string Payload, string Signature);

/// <summary>Account in the store: its key as PKCS#8 PEM, and its URL when the authority knows it.</summary>
internal sealed record AccountRecordJson(string? Key, string? Url);

/// <summary>Failures since the last certificate, shared by the nodes.</summary>
internal sealed record FailureRecordJson(int Count, DateTimeOffset Next, string? Node, string? Message);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase,
    DefaultIgnoreCondition = JsonIgnoreCondition.WhenWritingNull)]
[JsonSerializable(typeof(DirectoryJson))]
[JsonSerializable(typeof(AccountRequestJson))]
[JsonSerializable(typeof(OrderRequestJson))]
[JsonSerializable(typeof(OrderJson))]
[JsonSerializable(typeof(AuthorizationJson))]
[JsonSerializable(typeof(ProblemJson))]
[JsonSerializable(typeof(FinalizeJson))]
[JsonSerializable(typeof(RenewalInfoJson))]
[JsonSerializable(typeof(JwkJson))]
[JsonSerializable(typeof(JwsHeadJson))]
[JsonSerializable(typeof(JwsJson))]
[JsonSerializable(typeof(AccountRecordJson))]
[JsonSerializable(typeof(FailureRecordJson))]
internal sealed partial class AcmeJson : JsonSerializerContext
{
    internal static byte[] Write<T>(T value, JsonTypeInfo<T> type) => JsonSerializer.SerializeToUtf8Bytes(value, type);

    /// <summary>Reads a value, or returns null if the text is not that.</summary>
    internal static T? Read<T>(ReadOnlySpan<byte> json, JsonTypeInfo<T> type)
        where T : class
    {
        try
        {
            return JsonSerializer.Deserialize(json, type);
        }
        catch (JsonException)
        {
            return null;
        }
    }
}
