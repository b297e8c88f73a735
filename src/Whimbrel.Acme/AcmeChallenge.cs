namespace Whimbrel.Acme;

/// <summary>Proof of control over a name.</summary>
public enum AcmeChallenge
{
    /// <summary>
    /// The authority requests a path of the name over HTTP at port 80 (RFC 8555, 8.3): answered by a route
    /// (<see cref="AcmeRoutes.AddAcmeChallenges"/>) or at <see cref="AcmeOptions.HttpAddress"/>.
    /// </summary>
    Http01,

    /// <summary>
    /// The authority connects to port 443 of the name with the application protocol <c>acme-tls/1</c> (RFC 8737):
    /// answered by a server with <see cref="AcmeCertificate.Tls"/>. No other port is needed.
    /// </summary>
    TlsAlpn01,
}
