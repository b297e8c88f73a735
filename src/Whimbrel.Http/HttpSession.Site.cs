using System.Net;
using System.Text;

namespace Whimbrel.Http;

// Rules for all responses of a site: CORS, HSTS, compression, access log. Each costs one check of an option when it is
// off.
public partial class HttpSession
{
    private const int ClientWentAway = 499; // not a status of the protocol, but common in server logs

    private byte[]? _peerText;

    /// <summary>Default of MayCompress for responses.</summary>
    internal bool MayCompress => _options.Compression is { } compression && (compression.OverTls || Tls is null);

    /// <summary>Adds the fields of every response. Returns true for a CORS preflight: its response is complete with
    /// them.</summary>
    private bool DressAnswer(bool hasRequest)
    {
        if (_options.StrictTransportLine is { } line && Tls is not null) Exchange.Response.AddLines(line);
        return hasRequest && _options.Cors is { } cors && cors.Apply(Exchange.Request, Exchange.Response);
    }

    /// <summary>Records a response once, while its request is available.</summary>
    /// <param name="wentAway">Whether the client disconnected before the end of the response.</param>
    /// <param name="error">Error type for metrics; null for none.</param>
    private void NoteAnswer(bool wentAway = false, string? error = null)
    {
        ServerExchange exchange = Exchange;
        ServerAnswer answer = exchange.Answer;
        if (IsTimed) TellTime(wentAway && !answer.HasBegun ? 0 : answer.Status, error);
        if (_options.Log is not { } log) return;
        int status = wentAway && !answer.HasBegun ? ClientWentAway : answer.Status;
        log.Add(_peerText ??= PeerText(RemoteEndPoint), exchange.HasRequest ? exchange.Request : null, status,
            answer.BodyBytes);
    }

    private static byte[] PeerText(EndPoint? peer) => peer is IPEndPoint { Address: { } address }
        ? Encoding.ASCII.GetBytes((address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address).ToString())
        : "unix:"u8.ToArray();
}
