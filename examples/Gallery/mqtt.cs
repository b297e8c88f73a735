#:sdk Microsoft.NET.Sdk.Web
#:project ../../src/Whimbrel.Kestrel/Whimbrel.Kestrel.csproj
#:package MQTTnet.AspNetCore
// An MQTT broker: MQTTnet speaks the protocol, Kestrel accepts, and Whimbrel is the transport.
// Try it: mosquitto_sub -t news, and in a second terminal mosquitto_pub -t news -m hello
using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using MQTTnet.AspNetCore;
using Whimbrel.Kestrel;

IPEndPoint endPoint = IPEndPoint.Parse(args.FirstOrDefault() ?? "127.0.0.1:1883");
WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
builder.WebHost.UseWhimbrel();
builder.WebHost.ConfigureKestrel(kestrel => kestrel.Listen(endPoint, listener => listener.UseMqtt()));
builder.Services.AddHostedMqttServer(mqtt => mqtt.WithoutDefaultEndpoint()); // it listens by Kestrel only
builder.Services.AddMqttConnectionHandler();
builder.Services.AddConnections();

await using WebApplication app = builder.Build();
await app.StartAsync();
Console.WriteLine($"Listening at {new Uri(app.Urls.Single()).Authority}. Ctrl-C stops.");
await app.WaitForShutdownAsync();
