namespace Whimbrel.Compat.Templates;

/// <summary>Http*Session</summary>
internal static class HttpSessionText
{
    internal static string Text(Variant v) => $$"""
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// HTTP/1.1 session of a server{{v.Over}}: override <see cref="OnReceivedRequest"/> and send a response.
        /// Requests are parsed strictly, within limits, and reported in order (<see cref="HttpServing"/>).
        /// </summary>
        public class Http{{v.S}}Session : {{v.Transport}}Session, IHttpServed
        {
            private readonly HttpServing _http;

            /// <summary>Creates the session for a connection.</summary>
            /// <param name="server">Server of the session.</param>
            public Http{{v.S}}Session(Http{{v.S}}Server server)
                : base(server)
            {
                ArgumentNullException.ThrowIfNull(server);
                Cache = server.Cache;
                _http = new HttpServing(this, server.Limits);
            }

            /// <summary>Cache of the server, whose entries answer GET requests automatically.</summary>
            public FileCache Cache { get; }

            /// <summary>Current request. Cleared when its callback has returned.</summary>
            protected HttpRequest Request => _http.Request;

            /// <summary>Response to compose and send.</summary>
            public HttpResponse Response => _http.Response;

            bool IHttpServed.IsUpgraded => IsUpgraded;

            FileCache IHttpServed.Files => Cache;

            private protected virtual bool IsUpgraded => false;

        {{Members.Twice((a, result, how, gives) => Responses(a, result, how, gives))}}
            /// <summary>Parses requests. An override may pass other bytes to it.</summary>
            /// <param name="buffer">Buffer with the received bytes.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size) => _http.Receive(buffer, offset, size);

            /// <summary>Reports an incomplete request as an error, because the connection has ended.</summary>
            protected override void OnDisconnected() => _http.Ended();

            /// <summary>Called when the header of a request was parsed, before its body.</summary>
            /// <param name="request">Request without its body.</param>
            protected virtual void OnReceivedRequestHeader(HttpRequest request)
            {
            }

            /// <summary>Called for each request. Answer it here or later.</summary>
            /// <param name="request">Request. Cleared when this call has returned.</param>
            protected virtual void OnReceivedRequest(HttpRequest request)
            {
            }

            /// <summary>Called for a GET request that the cache can answer. The default sends the cached
            /// response.</summary>
            /// <param name="request">Request of the client.</param>
            /// <param name="content">Complete response. It must not be changed.</param>
            protected virtual void OnReceivedCachedRequest(HttpRequest request, byte[] content) => SendAsync(content);

            /// <summary>Called for an invalid or incomplete request. It is answered, and the connection ends.</summary>
            /// <param name="request">Incomplete request.</param>
            /// <param name="error">Description of the error.</param>
            protected virtual void OnReceivedRequestError(HttpRequest request, string error)
            {
            }

            void IHttpServed.TellHeader(HttpRequest request) => OnReceivedRequestHeader(request);

            void IHttpServed.TellRequest(HttpRequest request) => OnReceivedRequest(request);

            void IHttpServed.TellCached(HttpRequest request, byte[] content) => OnReceivedCachedRequest(request, content);

            void IHttpServed.TellError(HttpRequest request, string error) => OnReceivedRequestError(request, error);

            void IHttpServed.TellUpgraded(byte[] buffer, long offset, long size) => OnReceived(buffer, offset, size);

            bool IHttpServed.Give(ReadOnlySpan<byte> bytes) => SendAsync(bytes);

            void IHttpServed.End() => Disconnect();

            /// <summary>Records that the request got its last answer.</summary>
            private protected void RefuseMore() => _http.NoteRefusal();

            private protected bool IsAnswered => _http.IsAnswered;
        }

        """;

    private static string Responses(string a, string result, string how, string gives) => $$"""
            /// <summary>Sends <see cref="Response"/>{{how}}.</summary>
            /// <returns>{{gives}}</returns>
            public {{result}} SendResponse{{a}}() => SendResponse{{a}}(Response);

            /// <summary>Sends a response{{how}}.</summary>
            /// <param name="response">Response to send. Its bytes are copied.</param>
            /// <returns>{{gives}}</returns>
            public {{result}} SendResponse{{a}}(HttpResponse response)
            {
                ArgumentNullException.ThrowIfNull(response);
                if (!_http.TakesAnswers) return {{(result == "bool" ? "false" : "0")}};
                _http.Dress(response);
                {{result}} sent = Send{{a}}(response.Cache.Data, response.Cache.Offset, response.Cache.Size);
                _http.NoteAnswer(response);
                return sent;
            }

        {{Members.Each($"public {result} SendResponseBody{a}", $"Sends a part of a response's body{how}.", gives, (arguments, length) => $$"""

                {
                    {{result}} sent = Send{{a}}({{arguments}});
                    _http.NoteBody({{length}});
                    return sent;
                }
            """)}}
        """;
}
