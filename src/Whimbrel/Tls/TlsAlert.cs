namespace Whimbrel.Tls;

/// <summary>Alerts that are sent before a layer exists (RFC 8446, 6.2).</summary>
internal enum TlsAlert : byte
{
    None = 0,
    ProtocolVersion = 70,
    InternalError = 80,
    UnrecognizedName = 112,
    NoApplicationProtocol = 120,
}
