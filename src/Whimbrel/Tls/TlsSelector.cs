using System.Runtime.CompilerServices;
using System.Security.Cryptography;

namespace Whimbrel.Tls;

/// <summary>
/// Selects the provider for a server or client, once, at its start: from the variable WHIMBREL_TLS, from the options,
/// or the best one that supports the options. The reason is kept for messages.
/// </summary>
internal static class TlsSelector
{
    internal const string Variable = "WHIMBREL_TLS";

    // By the identity of the options: a protocol with STARTTLS upgrades each of its connections with the same object.
    private static readonly ConditionalWeakTable<TlsOptions, TlsProfile> s_servers = [];
    private static readonly ConditionalWeakTable<TlsOptions, TlsProfile> s_clients = [];

    /// <summary>
    /// Validates and prepares options for one connection. Cached with the object, so pass the same one again.
    /// </summary>
    internal static TlsProfile PrepareForUpgrade(TlsOptions options, bool isServer)
    {
        ConditionalWeakTable<TlsOptions, TlsProfile> known = isServer ? s_servers : s_clients;
        if (known.TryGetValue(options, out TlsProfile? profile)) return profile;
        OptionErrors errors = new(nameof(TlsOptions));
        options.Validate(errors, isServer);
        errors.ThrowIfAny();
        // Sessions of several loops, or on the pool, may call it at the same time: all get the same profile.
        return known.GetOrAdd(options, Prepare(options, isServer));
    }

    /// <summary>
    /// Prepares options. Throws ArgumentException with the name of an option that the selected provider does not
    /// support.
    /// </summary>
    internal static TlsProfile Prepare(TlsOptions options, bool isServer)
    {
        if (options.Maker is { } maker) return maker(options, isServer);
        try
        {
            (TlsProvider provider, string reason) = Choose(options);
            return Make(provider, reason, options, isServer);
        }
        catch (CryptographicException e)
        {
            throw new ArgumentException(e.Message, e);
        }
    }

    /// <summary>Creates the profile of a selected provider: OpenSsl or Portable.</summary>
    internal static TlsProfile Make(TlsProvider provider, string reason, TlsOptions options, bool isServer) =>
        provider switch
        {
            TlsProvider.OpenSsl => new OpenSslProfile(options, isServer) { Reason = reason },
            _ => new SslStreamProfile(options, isServer) { Reason = reason },
        };

    private static (TlsProvider Provider, string Reason) Choose(TlsOptions options)
    {
        string? forced = Environment.GetEnvironmentVariable(Variable);
        if (!string.IsNullOrEmpty(forced))
        {
            if (!Enum.TryParse(forced, ignoreCase: true, out TlsProvider word) || !Enum.IsDefined(word)
                || char.IsAsciiDigit(forced[0]))
                throw new ArgumentException(
                    $"{Variable} = {forced}, allowed {string.Join(", ", Enum.GetNames<TlsProvider>())}");
            if (word != TlsProvider.Auto) return (Available(word, Variable), $"{Variable} says so");
        }

        if (options.Provider != TlsProvider.Auto)
            return (Available(options.Provider, "TlsOptions.Provider"), "TlsOptions.Provider says so");
        if (options.NeedsOpenSsl is { } option)
        {
            return OpenSslLibrary.IsUsable
                ? (TlsProvider.OpenSsl, $"Auto: {option} needs it")
                : throw new ArgumentException(
                    $"Tls.{option} needs the OpenSsl layer, which cannot be used here: {OpenSslLibrary.Refusal}");
        }

        return OpenSslLibrary.Refusal is { } refusal
            ? (TlsProvider.Portable, $"Auto: OpenSsl cannot be used here: {refusal}")
            : (TlsProvider.OpenSsl, "Auto: OpenSsl can do everything, for less");
    }

    /// <summary>Returns the requested provider if it can be used here. Its profile checks the options.</summary>
    private static TlsProvider Available(TlsProvider provider, string source) =>
        provider == TlsProvider.OpenSsl && OpenSslLibrary.Refusal is { } refusal
            ? throw new ArgumentException($"{source} = OpenSsl cannot be used here: {refusal}. Use Auto or Portable")
            : provider;
}
