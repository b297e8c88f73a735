using System.Security.Authentication;

namespace Whimbrel.Tls;

/// <summary>Converts error texts of the system's TLS library to a sentence and a kind.</summary>
internal static class TlsErrorText
{
    internal static TlsFault Classify(Exception exception, TlsProfile profile)
    {
        Exception inmost = exception;
        while (inmost.InnerException is { } inner) inmost = inner;
        return Classify(inmost.Message, profile);
    }

    /// <summary>
    /// Classifies OpenSSL's text ("error:0A000418:SSL routines::tlsv1 alert unknown ca"), or any other.
    /// </summary>
    internal static TlsFault Classify(string text, TlsProfile profile)
    {
        int colons = text.LastIndexOf("::", StringComparison.Ordinal);
        string words = (colons >= 0 ? text[(colons + 2)..] : text).Trim().TrimEnd('.');
        string peer = profile.IsServer ? "client" : "server";
        int alert = words.IndexOf("alert ", StringComparison.Ordinal);
        if (alert >= 0 && !words.Contains("unexpected alert", StringComparison.Ordinal))
        {
            string what = words[(alert + 6)..];
            if (what.Contains("protocol version", StringComparison.Ordinal))
                return new TlsFault(TlsFailure.NoCommonVersion,
                    $"{peer} does not speak {profile.VersionText}, which is all that this side allows");
            if (what.Contains("application protocol", StringComparison.Ordinal))
                return new TlsFault(TlsFailure.NoCommonApplicationProtocol, $"{peer} speaks none of the application "
                    + $"protocols {string.Join(", ", profile.Options.ApplicationProtocols)}");
            return new TlsFault(TlsFailure.RefusedByPeer,
                $"{peer} refused it with the alert '{what}'{AdviceFor(what, profile)}");
        }

        if (Has(words, "no shared cipher", "no suitable key share",
            "no suitable signature", "no cipher", "no shared group", "no shared signature"))
            return new TlsFault(TlsFailure.NoCommonCipher,
                $"no cipher suite, group or signature scheme in common ({words})");
        if (Has(words, "unsupported protocol", "no protocols available",
            "wrong ssl version", "version too low", "inappropriate fallback"))
            return new TlsFault(TlsFailure.NoCommonVersion,
                $"no version in common: this side allows {profile.VersionText} ({words})");
        if (Has(words, "wrong version number", "http request",
            "https proxy request", "packet length too long", "unknown protocol"))
            return new TlsFault(TlsFailure.NotTls, $"what the {peer} sent is not TLS ({words})");
        if (Has(words, "no application protocol"))
            return new TlsFault(TlsFailure.NoCommonApplicationProtocol, "no application protocol in common");
        if (Has(words, "peer did not return a certificate"))
            return new TlsFault(TlsFailure.CertificateRejected,
                "client certificate refused: the client gave no certificate");
        return new TlsFault(TlsFailure.BadRecord, $"the {peer} broke the protocol ({words})");
    }

    private static bool Has(string words, params ReadOnlySpan<string> parts)
    {
        foreach (string part in parts)
        {
            if (words.Contains(part, StringComparison.OrdinalIgnoreCase)) return true;
        }

        return false;
    }

    private static string AdviceFor(string alert, TlsProfile profile)
    {
        if (Has(alert, "unknown ca", "bad certificate", "certificate unknown", "unsupported certificate",
            "certificate expired"))
            return profile.IsServer || profile.Options.Certificate is not null
                ? ": it does not accept our certificate"
                : "";
        if (Has(alert, "certificate required", "handshake failure") && !profile.IsServer
            && profile.Options.Certificate is null)
            return ": it may want a client certificate (TlsOptions.Certificate)";
        return Has(alert, "unrecognized name") ? ": it does not serve that name" : "";
    }
}
