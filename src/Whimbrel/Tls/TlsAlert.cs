namespace Whimbrel.Tls;

/// <summary>Alerts that are sent before there is a layer (RFC 8446, 6.2).</summary>
internal enum TlsAlert : byte
{
    None = 0,
    ProtocolVersion = 70,
    InternalError = 80,
    UnrecognizedName = 112,
    NoApplicationProtocol = 120,
}
