using System.Net;
using System.Text;

namespace Whimbrel.Http;

// What holds for all answers of a site: who may see them, over what they come, and that they are noted. Each costs a look at an
// option when it is off.
public partial class HttpSession
{
    private const int ClientWentAway = 499; // no status of the protocol: what other servers write into their logs

    private byte[]? _peerText;

    /// <summary>Whether answers are compressed unless they say otherwise.</summary>
    internal bool MayCompress => _options.Compression is { } compression && (compression.OverTls || Tls is null);

    /// <summary>Adds the fields that every answer has. True: the answer has nothing else, a browser asks beforehand.</summary>
    private bool DressAnswer(bool hasRequest)
    {
        if (_options.StrictTransportLine is { } line && Tls is not null) Exchange.Response.AddLines(line);
        return hasRequest && _options.Cors is { } cors && cors.Apply(Exchange.Request, Exchange.Response);
    }

    /// <summary>Notes an answer, once, while its request is there.</summary>
    /// <param name="wentAway">It was not heard to its end, or not at all.</param>
    /// <param name="error">For the meter: what went wrong.</param>
    private void NoteAnswer(bool wentAway = false, string? error = null)
    {
        ServerExchange exchange = Exchange;
        ServerAnswer answer = exchange.Answer;
        if (IsTimed) TellTime(wentAway && !answer.HasBegun ? 0 : answer.Status, error);
        if (_options.Log is not { } log) return;
        int status = wentAway && !answer.HasBegun ? ClientWentAway : answer.Status;
        log.Add(_peerText ??= PeerText(RemoteEndPoint), exchange.HasRequest ? exchange.Request : null, status, answer.BodyBytes);
    }

    private static byte[] PeerText(EndPoint? peer) => peer is IPEndPoint { Address: { } address } ? Encoding.ASCII.GetBytes((address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address).ToString()) : "unix:"u8.ToArray();
}
