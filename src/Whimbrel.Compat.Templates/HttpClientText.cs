namespace Whimbrel.Compat.Templates;

/// <summary>Http*Client</summary>
internal static class HttpClientText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// HTTP/1.1 client{{v.Over}}: send requests, and override <see cref="OnReceivedResponse"/>. Responses are
        /// parsed strictly, within limits, and reported in the order of the requests (<see cref="HttpAsking"/>). A
        /// missing Host is added.
        /// </summary>
        public class Http{{v.S}}Client : {{v.Transport}}Client, IHttpAsking
        {
            private const int UsualPort = {{v.Port}};

            private readonly HttpAsking _http;

        {{Members.Constructors(v, $"Http{v.S}Client", " => _http = new HttpAsking(this);")}}
            /// <summary>Request to compose and send.</summary>
            public HttpRequest Request
            {
                get => _http.Request;
                protected set => _http.Request = value;
            }

            /// <summary>Response that is being parsed.</summary>
            protected HttpResponse Response
            {
                get => _http.Response;
                set => _http.Response = value;
            }

            bool IHttpAsking.IsUpgraded => IsUpgraded;

            private protected virtual bool IsUpgraded => false;

            private protected HttpAsking Asking => _http;

        {{Members.Twice((a, result, how, gives) => Requests(a, result, how, gives))}}
            /// <summary>Parses responses.</summary>
            /// <param name="buffer">Array with the received bytes.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size) => _http.Receive(buffer, offset, size);

            /// <summary>Reports a response that ends with the connection.</summary>
            protected override void OnDisconnected()
            {
                _http.Ended();
                _http.Begin();
            }

            /// <summary>Called when the header of a response was parsed, before its body.</summary>
            /// <param name="response">Response without its body.</param>
            protected virtual void OnReceivedResponseHeader(HttpResponse response)
            {
            }

            /// <summary>Called for each response.</summary>
            /// <param name="response">Response. Cleared when this call has returned.</param>
            protected virtual void OnReceivedResponse(HttpResponse response)
            {
            }

            /// <summary>Called for an invalid or incomplete response. The connection ends.</summary>
            /// <param name="response">Incomplete response.</param>
            /// <param name="error">Description of the error.</param>
            protected virtual void OnReceivedResponseError(HttpResponse response, string error)
            {
            }

            void IHttpAsking.TellHeader(HttpResponse response) => OnReceivedResponseHeader(response);

            void IHttpAsking.TellResponse(HttpResponse response) => OnReceivedResponse(response);

            void IHttpAsking.TellError(HttpResponse response, string error) => OnReceivedResponseError(response, error);

            void IHttpAsking.TellUpgraded(byte[] buffer, long offset, long size) => OnReceived(buffer, offset, size);

            void IHttpAsking.Settle() => Settle();

            void IHttpAsking.End() => DisconnectAsync();

            private protected virtual void Settle()
            {
            }
        }

        """;

    private static string Requests(string a, string result, string how, string gives) => $$"""
            /// <summary>Sends <see cref="Request"/>{{how}}.</summary>
            /// <returns>{{gives}}</returns>
            public {{result}} SendRequest{{a}}() => SendRequest{{a}}(Request);

            /// <summary>Sends a request{{how}}.</summary>
            /// <param name="request">Request to send. Its bytes are copied.</param>
            /// <returns>{{gives}}</returns>
            public {{result}} SendRequest{{a}}(HttpRequest request) => _http.Report(request, Address, Port, UsualPort) ? Send{{a}}(request.Cache.Data, request.Cache.Offset, request.Cache.Size) : default;

        {{Members.Each($"public {result} SendRequestBody{a}", $"Sends a part of a request's body{how}.", gives, (arguments, _) => $" => Send{a}({arguments});")}}
        """;
}
